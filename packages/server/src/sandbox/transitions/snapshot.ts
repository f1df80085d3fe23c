import { DormouseError, type SnapshotId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { SnapshotRow } from '../../store/snapshot-rows.ts'
import { collectVariables } from '../collect-variables.ts'
import type { Sandbox } from '../sandbox.ts'
import { requireExists } from '../sandbox-errors.ts'
import type { StateChange } from '../state-change.ts'
import { timerWakeAt } from '../timer-wakes.ts'
import { bytesOf, save as saveBurrow } from './standby.ts'
import { wake } from './wake.ts'

interface SnapshotOptions {
  readonly name: string | undefined
  readonly kind: 'full' | 'files'
}

/** Takes a snapshot that is kept until it is deleted. Pre: the caller holds the lock alone. */
export async function takeSnapshot(sandbox: Sandbox, options: SnapshotOptions): Promise<SnapshotRow> {
  requireExists(sandbox)
  const { row, deps } = sandbox
  requireFreeName(sandbox, options)
  deps.quotas.requireDisk(row.owner)
  // The head of a sleeping sandbox is the snapshot. Without one of its own, or for files alone, it has to be awake.
  if (row.state === 'standby' && (row.headOf !== row.id || options.kind === 'files'))
    await wake(sandbox, 'resume')
  return keepSnapshot(sandbox, options)
}

/**
 * Returns a snapshot of the current state that is not kept: it lasts as long as a sandbox wakes from it. Pre: the
 * caller holds the lock alone.
 */
export async function takeHead(sandbox: Sandbox): Promise<SnapshotRow> {
  requireExists(sandbox)
  const { row, deps } = sandbox
  if (row.state === 'standby' && row.head !== undefined) return found(sandbox, row.head)
  deps.quotas.requireDisk(row.owner)
  if (row.state === 'standby') await wake(sandbox, 'resume')
  return save(sandbox, { name: undefined, kind: 'full', isKept: false })
}

/** Names are given only while the lock is held, so this stays true until the snapshot is recorded. */
function requireFreeName({ row, deps }: Sandbox, { name, kind }: SnapshotOptions): void {
  if (name === undefined) return
  const other = deps.snapshots.findNamed(row.id, name) ?? deps.elsewhere?.findNamed(row.id, name)
  if (other === undefined) return
  const isSameState = row.state === 'standby' && row.head === other.id && kind === 'full'
  if (isSameState) return
  throw new DormouseError('name_taken', `This sandbox already has a snapshot named "${name}".`, {
    details: { snapshotId: other.id },
    hint: 'Choose another name, or delete that snapshot first.',
  })
}

async function keepSnapshot(sandbox: Sandbox, { name, kind }: SnapshotOptions): Promise<SnapshotRow> {
  const { row, deps } = sandbox
  if (row.state === 'standby' && row.head !== undefined && kind === 'full') {
    const head = deps.snapshots.get(row.head)
    if (head?.isKept === true && head.name !== name)
      throw new DormouseError('conflict', 'This state is already saved under another name.', {
        details: { snapshotId: head.id },
        hint: 'Use that snapshot, or change something first.',
      })
    deps.snapshots.keep(row.head, name)
    return found(sandbox, row.head)
  }
  return save(sandbox, { name, kind, isKept: true })
}

async function save(
  sandbox: Sandbox,
  { kind, ...keep }: SnapshotOptions & { isKept: boolean },
): Promise<SnapshotRow> {
  const { burrow } = sandbox
  if (burrow === undefined) throw new DormouseError('conflict', 'There is nothing to save yet.')
  const began = performance.now()
  sandbox.write({ intent: 'snapshot' })
  const saved = await (kind === 'files' ? saveFiles : saveAll)(sandbox, burrow, { ...keep, began })
  return found(sandbox, saved)
}

interface Keep {
  readonly name: string | undefined
  readonly isKept: boolean
  readonly began: number
}

async function saveAll(sandbox: Sandbox, burrow: Burrow, { name, isKept, began }: Keep): Promise<SnapshotId> {
  const { row, deps } = sandbox
  const isRunning = row.state === 'running'
  const asking = isRunning ? collectVariables(sandbox, burrow) : undefined
  const [variables] = await Promise.all([asking, sandbox.sample()])
  const saved = await saveBurrow(sandbox, burrow, isRunning ? 'running' : 'frozen').catch((error) => {
    sandbox.write({ intent: null })
    throw error
  })
  const latencyMs = performance.now() - began
  await sandbox.recordOutcome(async () => {
    const snapshot = await saved.snapshot()
    const isAsleep = saved.burrow === undefined
    const written: StateChange = {
      fields: {
        head: snapshot.id,
        lostSince: undefined,
        wakesAt: timerWakeAt(sandbox, snapshot),
        ...(isAsleep && { tier: 'stored' }),
      },
      newBurrow: saved.burrow === undefined ? null : { burrow: saved.burrow, isContinued: true },
      intent: null,
      entry: { event: 'snapshot', cause: 'asked', latencyMs, bytes: bytesOf(snapshot) },
      inTransaction: () => {
        deps.snapshots.put(snapshot, { owner: row.owner, name, isKept })
        if (variables !== undefined) deps.variables.put(snapshot.id, variables)
      },
    }
    if (isAsleep && isRunning) sandbox.move('standby', written)
    else sandbox.write(written)
    sandbox.dropSnapshotLater(row.head)
  }, saved.burrow)
  return saved.snapshotId
}

/** Saves only the files, while the processes continue. */
async function saveFiles(sandbox: Sandbox, burrow: Burrow, { name, began }: Keep): Promise<SnapshotId> {
  const { row, deps } = sandbox
  const { snapshot } = await deps.engine
    .snapshot(burrow, { leave: 'running', kind: 'files' })
    .catch((error: unknown) => {
      sandbox.write({ intent: null })
      throw error
    })
  const latencyMs = performance.now() - began
  await sandbox.recordOutcome(() => {
    sandbox.write({
      intent: null,
      entry: { event: 'snapshot', cause: 'asked', latencyMs, detail: 'files only' },
      inTransaction: () => deps.snapshots.put(snapshot, { owner: row.owner, name, isKept: true }),
    })
  })
  return snapshot.id
}

function found(sandbox: Sandbox, id: SnapshotId): SnapshotRow {
  const snapshot = sandbox.deps.snapshots.get(id)
  if (snapshot === undefined)
    throw new DormouseError('internal', 'A snapshot that was just taken is not on record.')
  return snapshot
}
