import { hasErrorCode, isSnapshotId } from '@dormouse/contracts'
import type { Caller, CreateRequest } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'
import type { SandboxRecord } from '../sandbox/record.ts'
import { expiryOf } from '../sandbox/state.ts'
import type { CreateBody } from './bodies.ts'
import { networkPolicy } from './network-policy.ts'
import type { ControlParts } from './sandbox-routes.ts'
import { findSnapshot } from './snapshot-routes.ts'

/** Code can tell that it runs for a client of E2B; results carry the data of charts and tables. */
const OWN_VARIABLES = { E2B_SANDBOX: 'true', DORMOUSE_RESULT_DATA: '1' }

export interface Creation {
  readonly body: CreateBody
  readonly timeoutS: number
  readonly isSecure: boolean
  readonly signal: AbortSignal
}

/** Creates a sandbox and its record. A template that does not exist is an `ApiError` 404. */
export async function createSandbox(
  parts: ControlParts,
  caller: Caller,
  { body, timeoutS, isSecure, signal }: Creation,
): Promise<SandboxRecord> {
  const { backend, lifecycle, ownTemplate } = parts
  const { sandboxes, policyDefaults, records } = backend
  const onTimeout = body.autoPause === true ? 'pause' : 'kill'
  const record = lifecycle.newRecord({
    template: body.templateID,
    timeoutMs: timeoutS * 1000,
    isSecure,
    hasPublicTraffic: body.network?.allowPublicTraffic !== false,
    onTimeout,
    autoResume: body.autoResume?.enabled === true,
    keepsMemory: body.autoPauseMemory !== false,
    network: body.network ?? undefined,
  })
  const network = networkPolicy(
    { ...body.network, allow_internet_access: body.allow_internet_access ?? true },
    policyDefaults.network,
  )
  const common = {
    ...policyDefaults,
    network,
    name: undefined,
    env: { ...OWN_VARIABLES, E2B_TEMPLATE_ID: body.templateID, ...body.envVars },
    metadata: body.metadata ?? {},
    volumes: (body.volumeMounts ?? []).map(({ name, path }) => ({ volume: name, path, readOnly: false })),
    secrets: [],
    expires: expiryOf(record),
    wakeOnTimer: false,
    atMemoryLimit: 'kill',
    checkpointEveryMs: 0,
    ephemeral: false,
  } as const
  const create = async () => {
    const origin = await findOrigin(parts, body.templateID, caller)
    return sandboxes.create({ ...common, ...origin }, caller, signal)
  }
  const { sandbox } = await create().catch((error: unknown) => {
    if (!hasErrorCode(error, 'template_not_found')) throw error
    // The template was deleted since it was last used.
    if (!ownTemplate.isOwn(body.templateID.split(':')[0] ?? ''))
      throw new ApiError(404, `template '${body.templateID}' not found`)
    ownTemplate.forget(caller)
    return create()
  })
  const written = { ...record, sandboxId: sandbox.id }
  records.put(written)
  return written
}

/** What a sandbox of this template starts from, and its limits. */
async function findOrigin(
  { backend, ownTemplate, builds }: ControlParts,
  name: string,
  caller: Caller,
): Promise<Pick<CreateRequest, 'template' | 'snapshotId' | 'limits'>> {
  const limits = backend.defaultLimits(caller)
  const plain = name.split(':')[0] ?? name
  if (ownTemplate.isOwn(plain)) return { template: await ownTemplate.ensure(caller), limits }
  const built = await builds.resolve(name, caller)
  if (built !== undefined) {
    const size = { cpus: built.cpuCount, memoryBytes: built.memoryMB * 1024 ** 2 }
    return { template: built.template, limits: { ...limits, ...size } }
  }
  const snapshotId = findSnapshot(backend, name, caller)
  if (snapshotId === undefined || !isSnapshotId(snapshotId)) return { template: plain, limits }
  const { template } = backend.sandboxes.getSnapshot(snapshotId, caller)
  const own = await backend.sandboxes.limitsOfSnapshot(snapshotId, caller)
  return { template, snapshotId, limits: { ...limits, ...own } }
}
