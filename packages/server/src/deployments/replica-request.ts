import type { Caller } from '../access/caller.ts'
import type { CreateSandbox, SandboxLimits } from '../store/sandbox-rows.ts'
import type { ServiceRow, VersionRow } from './service-rows.ts'

export interface ReplicaDefaults {
  readonly policyDefaults: Pick<
    CreateSandbox,
    'idleTimeoutMs' | 'storeAfterMs' | 'maxBackgroundMs' | 'network' | 'connections'
  >
  readonly defaultLimits: (caller: Caller) => SandboxLimits
  readonly defaultTemplate: string
}

/** The sandbox of a replica of this version. */
export function replicaRequest(
  { policyDefaults, defaultLimits, defaultTemplate }: ReplicaDefaults,
  { name, owner, settings }: Pick<ServiceRow, 'name' | 'owner' | 'settings'>,
  { version, plan }: Pick<VersionRow, 'version' | 'plan'>,
): CreateSandbox {
  const { env, secrets, volumes, limits, network, template, isolation } = plan
  return {
    ...policyDefaults,
    ...(network && { network }),
    template: template ?? defaultTemplate,
    isolation,
    metadata: { 'dormouse/service': name, 'dormouse/version': String(version) },
    limits: { ...defaultLimits({ keyId: owner, isAdmin: false }), ...limits },
    ...{ env, secrets, volumes, name: undefined, expires: undefined },
    ...({ wakeOnTimer: false, atMemoryLimit: 'kill', ephemeral: false } as const),
    checkpointEveryMs: settings.checkpointEveryMs ?? 0,
  }
}
