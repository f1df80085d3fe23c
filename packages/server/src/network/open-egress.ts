import { readFileSync } from 'node:fs'
import { DormouseError } from '@dormouse/contracts'
import { Egress } from '@dormouse/egress'
import type { Gate } from '@dormouse/engine'
import type { NetworkConfig } from '../config/config.ts'
import type { Log } from '../log.ts'
import { configuredRegistries } from './registries.ts'

export interface OpenEgress {
  readonly config: NetworkConfig
  /** What sandboxes with secrets trust. */
  readonly authority: { readonly certificate: string; readonly key: string }
  /** Another gate for a sandbox, when the thread that held the first one has died. */
  readonly reopen: (sandboxId: string) => Promise<Gate>
  readonly log: Log
}

/** Begins to decide and to carry, for all sandboxes. */
export function openEgress({ config, authority, reopen, log }: OpenEgress): Promise<Egress> {
  const { resolvers, reachable, ownAddresses, proxy, maxConnections, maxConnectionsTotal, caFile } = config
  return Egress.start({
    ...(resolvers && { resolvers }),
    ...(proxy && { proxy }),
    reachable,
    registries: configuredRegistries(config),
    maxConnections,
    maxConnectionsTotal,
    hostAddresses: () => [...ownAddresses],
    ca: authority,
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
      hint: 'Name a file with certificates in PEM, or leave it out.',
      cause,
    })
  }
}
