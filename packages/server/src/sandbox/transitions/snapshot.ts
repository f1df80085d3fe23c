import { DormouseError, type SnapshotId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { SnapshotRow } from '../../store/snapshot-rows.ts'
import type { Sandbox } from '../sandbox.ts'
import { requireExists } from '../sandbox-errors.ts'
import type { StateChange } from '../state-change.ts'
import { bytesOf, save } from './standby.ts'
import { wake } from './wake.ts'

/** Takes a snapshot that is kept until it is deleted. Pre: the caller holds the lock alone. */
export async function takeSnapshot(
  sandbox: Sandbox,
  options: { name: string | undefined; kind: 'full' | 'files' },
): Promise<SnapshotRow> {
  requireExists(sandbox)
  const { row, deps } = sandbox
  deps.quotas.requireDisk(row.owner)
  // The head of a sleeping sandbox is the snapshot. Without one, or for files alone, it has to be awake.
  if (row.state === 'standby' && (row.head === undefined || options.kind === 'files'))
    await wake(sandbox, 'resume')
  return keepSnapshot(sandbox, options)
}

async function keepSnapshot(
  sandbox: Sandbox,
  { name, kind }: { name: string | undefined; kind: 'full' | 'files' },
): Promise<SnapshotRow> {
  const { row, burrow, deps } = sandbox
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
  if (burrow === undefined) throw new DormouseError('conflict', 'There is nothing to save yet.')
  const began = performance.now()
  sandbox.write({ intent: 'snapshot' })
  const kept = await (kind === 'files' ? saveFiles : saveAll)(sandbox, burrow, { name, began })
  return found(sandbox, kept)
}

interface Keep {
  readonly name: string | undefined
  readonly began: number
}

async function saveAll(sandbox: Sandbox, burrow: Burrow, { name, began }: Keep): Promise<SnapshotId> {
  const { row, deps } = sandbox
  await sandbox.sample()
  const saved = await save(sandbox, burrow, row.state === 'running' ? 'running' : 'frozen').catch((error) => {
    sandbox.write({ intent: null })
    throw error
  })
  const latencyMs = performance.now() - began
  await sandbox.recordOutcome(async () => {
    const snapshot = await saved.snapshot()
    const isAsleep = saved.burrow === undefined
    const written: StateChange = {
      fields: { head: snapshot.id, lostSince: undefined, ...(isAsleep && { tier: 'stored' }) },
      newBurrow: saved.burrow === undefined ? null : { burrow: saved.burrow, isContinued: true },
      intent: null,
      entry: { event: 'snapshot', cause: 'asked', latencyMs, bytes: bytesOf(snapshot) },
      inTransaction: () => deps.snapshots.put(snapshot, { owner: row.owner, name, isKept: true }),
    }
    if (isAsleep && row.state === 'running') sandbox.move('standby', written)
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
