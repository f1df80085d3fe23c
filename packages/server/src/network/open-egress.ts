import { readFileSync } from 'node:fs'
import { DormouseError } from '@dormouse/contracts'
import { Egress } from '@dormouse/egress'
import type { Gate } from '@dormouse/engine'
import type { NetworkConfig } from '../config/config.ts'
import type { Log } from '../log.ts'
import { configuredRegistries } from './registries.ts'

export interface OpenEgress {
  readonly config: NetworkConfig
  /** The certificate authority that sandboxes with secrets trust. */
  readonly authority: { readonly certificate: string; readonly key: string }
  /** See `Engine.endAddon`. */
  readonly endAddon: string | undefined
  /** Opens another gate for a sandbox after the worker thread died. */
  readonly reopen: (sandboxId: string) => Promise<Gate>
  /** Memory of the deadline after which this host must not act for its sandboxes. Undefined outside a cluster. */
  readonly fence?: SharedArrayBuffer | undefined
  readonly log: Log
}

/** Starts the worker thread that serves all gates. */
export function openEgress(options: OpenEgress): Promise<Egress> {
  const { config, authority, endAddon, reopen, fence, log } = options
  const { resolvers, reachable, ownAddresses, proxy, maxConnections, maxConnectionsTotal, caFile } = config
  return Egress.start({
    ...(resolvers && { resolvers }),
    ...(proxy && { proxy }),
    ...(fence && { fence }),
    reachable,
    registries: configuredRegistries(config),
    maxConnections,
    maxConnectionsTotal,
    hostAddresses: () => [...ownAddresses],
    ca: authority,
    ...(endAddon !== undefined && { endAddon }),
    ...(caFile !== undefined && { upstreamCa: readRoots(caFile) }),
    reopen,
    onError: (message, cause) => log.error({ err: cause }, message),
  })
}

function readRoots(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (cause) {
    throw new DormouseError('setup_failed', `network.caFile cannot be read: ${path}`, {
      hint: 'Set it to a file with PEM certificates, or leave it out.',
      cause,
    })
  }
}
