import { join } from 'node:path'
import { isSandboxId } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import type { ServerConfig } from '../config/config.ts'
import type { Closing } from '../host/closing.ts'
import type { Log } from '../log.ts'
import { DenialHistory } from '../network/denial-history.ts'
import { FailedLookupHistory } from '../network/failed-lookup-history.ts'
import { NetworkService } from '../network/network-service.ts'
import { openEgress } from '../network/open-egress.ts'
import type { EntryOf } from '../network/record-entries.ts'
import { DataWakes } from '../sandbox/data-wakes.ts'
import type { RowsElsewhere } from '../sandbox/owner-quotas.ts'
import type { Sandboxes } from '../sandbox/sandboxes.ts'
import { secretsInUse } from '../sandbox/secrets-in-use.ts'
import { EDGE_FILE, openAuthority } from '../secrets/open-authority.ts'
import { SandboxSecrets } from '../secrets/sandbox-secrets.ts'
import { SealedValues } from '../secrets/sealed-values.ts'
import { SecretService } from '../secrets/secret-service.ts'
import type { Stores } from './open-stores.ts'

export interface OpenNetwork {
  readonly config: ServerConfig
  readonly engine: Engine
  readonly stores: Stores
  readonly sandboxes: Sandboxes
  /** Sandboxes of other hosts of the cluster. */
  readonly elsewhere: RowsElsewhere
  /** Writes ledger entries that belong to no transition. */
  readonly record: (entries: readonly EntryOf[]) => void
  readonly fence?: SharedArrayBuffer | undefined
  readonly log: Log
}

/** Opens secrets, then the network, whose gates put the values of secrets into requests. */
export async function openNetwork(
  { config, engine, stores, sandboxes, elsewhere, record, fence, log }: OpenNetwork,
  opened: Closing,
) {
  const { clock } = stores
  const denials = opened.use(new DenialHistory({ record, clock }))
  const failedLookups = new FailedLookupHistory(clock)
  const authority = openAuthority(join(config.dataDir, EDGE_FILE))
  const secrets = new SecretService({
    rows: stores.secrets,
    values: SealedValues.open(join(config.dataDir, 'secrets.key')),
    ...secretsInUse(sandboxes, elsewhere),
    now: clock.wallMs,
    log,
  })
  // Egress asks for a gate again only after the network has attached one.
  const reopen = (id: string) => network.reopen(id)
  const egress = engine.capabilities.network
    ? await openEgress({ config: config.network, authority, endAddon: engine.endAddon, reopen, fence, log })
    : undefined
  if (egress !== undefined) opened.use({ [Symbol.asyncDispose]: () => egress.close() })
  egress?.onDenial(({ sandboxId, ageMs, ...denied }) => denials.add(sandboxId, denied, ageMs))
  const dataWakes = opened.use(new DataWakes({ clock, log }))
  egress?.onDataAsleep((id) => {
    const sandbox = isSandboxId(id) ? sandboxes.find(id) : undefined
    if (sandbox !== undefined) dataWakes.arrived(sandbox)
  })
  egress?.onFailedLookup(({ sandboxId, ...failed }) => failedLookups.add(sandboxId, failed))
  const network: NetworkService = opened.use(
    new NetworkService({
      endAddon: engine.endAddon,
      egress,
      denials,
      failedLookups,
      secretsOf: (row) => secrets.secretsOf(row),
      record: (id, entry) => record([{ id, entry }]),
      log,
    }),
  )
  const { certificate } = authority
  return { secrets, network, sandboxSecrets: new SandboxSecrets({ service: secrets, certificate, log }) }
}
