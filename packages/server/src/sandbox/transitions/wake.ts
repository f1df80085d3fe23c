import { type BurrowLimitsInput, DormouseError, hasErrorCode, type SnapshotId } from '@dormouse/contracts'
import type { Burrow, CreateBurrow, RestoreOptions, VolumeMount } from '@dormouse/engine'
import type { SandboxRow } from '../../store/sandbox-rows.ts'
import type { TemplateSnapshots } from '../../templates/template-service.ts'
import { gone, type SandboxBody } from '../sandbox-body.ts'
import type { SandboxDependencies } from '../sandbox-dependencies.ts'
import type { WakeCause } from '../service.ts'

/** Wakes it. Pre: an exclusive turn. A failure leaves it asleep. */
export async function wake(body: SandboxBody, cause: WakeCause): Promise<void> {
  const { row, parts, burrow } = body
  if (row.state === 'running') {
    // Who comes back without one would come again at once.
    if (burrow === undefined) throw new DormouseError('internal', 'A running sandbox has no burrow.')
    return
  }
  if (row.state !== 'standby') throw gone(row.id)
  requireDisk(row)
  parts.quarantine.require(row, row.head)
  parts.requireRoomToWrite(row)
  const began = performance.now()
  if (row.tier === 'frozen' && burrow !== undefined) {
    // Written before anything runs: what a row calls frozen has not changed since its snapshot.
    body.move(['resuming', 'running'], {
      change: { tier: undefined },
      entry: { event: 'woke', cause, tier: 'frozen', bytes: 0 },
      isQuick: true,
    })
    body.work.touch()
    return body.conclude(async () => {
      await burrow.thaw()
      body.thawed(performance.now() - began)
    })
  }
  // Nobody who wakes something waits for the disk: after a power cut it is asleep as before, with the snapshot it woke from.
  body.move('resuming', { intent: 'wake', isQuick: true })
  let next: Burrow
  try {
    parts.makeRoomToWake()
    next = await parts.admission.run(row.owner, () => startBurrow(parts, row))
  } catch (error) {
    const detail = error instanceof DormouseError ? error.message : 'An inner error; the server log has it.'
    await body.conclude(() => {
      const entry = { event: 'failed', cause: 'wake', detail } as const
      body.move('standby', { change: { tier: 'stored' }, intent: null, entry })
    })
    throw error
  }
  const head = row.head === undefined ? undefined : parts.snapshots.get(row.head)
  const bytes = head === undefined ? 0 : head.imageBytes + head.memoryBytes
  body.work.touch()
  const latencyMs = performance.now() - began
  await body.conclude(() => {
    body.move('running', {
      change: { tier: undefined },
      arrival: { burrow: next, isContinued: row.lostSince === undefined },
      intent: null,
      entry: { event: 'woke', cause, tier: 'stored', latencyMs, bytes },
      isQuick: true,
    })
  }, next)
}

/** What fills the disk of its host is let in again when somebody allows it more. */
function requireDisk({ diskBytes, diskFiles, limits }: SandboxRow): void {
  if (diskFiles !== undefined && diskFiles > limits.files)
    throw new DormouseError(
      'limit_reached',
      `The sandbox has made ${diskFiles} files or more; its limit is ${limits.files}.`,
      {
        hint: 'Allow it more, then delete inside what is not needed: `dormouse update SANDBOX --files NUMBER`, or `limits.files` of an update by HTTP or an SDK. Or roll back to a snapshot.',
        details: { limit: 'files', used: diskFiles, limitFiles: limits.files },
      },
    )
  if (diskBytes === undefined || diskBytes <= limits.diskBytes) return
  throw new DormouseError(
    'limit_reached',
    `The sandbox has written ${diskBytes} bytes; its limit is ${limits.diskBytes}.`,
    {
      hint: 'Allow it more, then delete inside what is not needed: `dormouse update SANDBOX --disk SIZE`, or `limits.diskBytes` of an update by HTTP or an SDK.',
      details: { limit: 'diskBytes', usedBytes: diskBytes, limitBytes: limits.diskBytes },
    },
  )
}

/** The disk is not the engine's to limit; see watch-disk.ts. */
export function limitsOfProcesses({ memoryBytes, cpus, pids }: SandboxRow['limits']): BurrowLimitsInput {
  return { memoryBytes, cpus, pids }
}

/** As the engine knows them. */
function mountsOf({ volumes }: SandboxRow): VolumeMount[] {
  return volumes.map(({ volumeId, path, readOnly }) => ({ volumeId, path, readOnly }))
}

/** A burrow of this sandbox from what is saved of it, or from its template when nothing is. */
export async function startBurrow(
  parts: SandboxDependencies,
  row: SandboxRow,
  signal?: AbortSignal,
  /** Instead of its template. */
  given?: SnapshotId,
): Promise<Burrow> {
  const { engine, templateSnapshots } = parts
  const { id: sandboxId } = row
  const env = parts.secrets.envOf(row)
  const limits = limitsOfProcesses(row.limits)
  const volumes = mountsOf(row)
  const rest = { sandboxId, ...(signal && { signal }) }
  if (row.head !== undefined)
    return engine.restore(row.head, {
      ...rest,
      ...asNow(parts, row, row.head),
      of: row.headOf ?? row.id,
      reason: 'resume',
    })
  const as = { ...rest, limits, env, volumes }
  const optionsFor = (id: SnapshotId): RestoreOptions => {
    parts.quarantine.require(row, id)
    return { ...as, of: parts.snapshots.get(id)?.sandboxId }
  }
  if (given !== undefined) return engine.restore(given, { ...optionsFor(given), reason: 'fork' })
  const made = templateSnapshots(row.template, row.owner)
  if (made !== undefined) return startFrom(parts, made, optionsFor)
  parts.quarantine.requireTemplate(row.template)
  const request: CreateBurrow = { sandboxId, template: row.template, limits, env, volumes }
  return engine.createBurrow(request, signal)
}

/** One that was built starts like those of the host; where its processes cannot go on, it boots on its files. */
async function startFrom(
  { engine, log }: SandboxDependencies,
  { snapshotId, filesId }: TemplateSnapshots,
  optionsFor: (id: SnapshotId) => RestoreOptions,
): Promise<Burrow> {
  if (filesId === undefined) return engine.restore(snapshotId, { ...optionsFor(snapshotId), reason: 'fork' })
  try {
    return await engine.restore(snapshotId, { ...optionsFor(snapshotId), reason: 'create' })
  } catch (error) {
    if (!hasErrorCode(error, 'snapshot_unusable')) throw error
    log.warn({ snapshotId, err: error }, 'a template boots: its snapshot cannot be used here')
    return engine.restore(filesId, { ...optionsFor(filesId), reason: 'fork' })
  }
}

/** A snapshot comes back with what holds for the sandbox now, not with what held when it was taken. */
export function asNow(
  { snapshots, secrets }: SandboxDependencies,
  row: SandboxRow,
  id: SnapshotId,
): Pick<RestoreOptions, 'limits' | 'volumes' | 'env'> {
  const limits = limitsOfProcesses(row.limits)
  // Memory remembers its environment, with what was done to it since; files alone do not.
  const isBoot = snapshots.get(id)?.kind === 'files'
  return { limits, volumes: mountsOf(row), ...(isBoot && { env: secrets.envOf(row) }) }
}
