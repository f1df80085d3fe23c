import { DormouseError, type SnapshotId } from '@dormouse/contracts'
import type { SnapshotRow } from '../../store/snapshot-rows.ts'
import type { SandboxBody } from '../sandbox-body.ts'
import { save, settleInto } from './standby.ts'

/** Keeps the present state under a name. Pre: an exclusive turn. A sleeping sandbox stays asleep: its state is on disk already. */
export async function keepSnapshot(
  body: SandboxBody,
  { name, kind }: { name: string | undefined; kind: 'full' | 'files' },
): Promise<SnapshotRow> {
  const { row, burrow, parts } = body
  if (row.state === 'standby' && row.head !== undefined && kind === 'full') {
    const head = parts.snapshots.get(row.head)
    if (head?.isKept === true && head.name !== name)
      throw new DormouseError('conflict', 'This state is saved already, under another name.', {
        details: { snapshotId: head.id },
        hint: 'Use that snapshot, or change something first.',
      })
    parts.snapshots.keep(row.head, name)
    return found(body, row.head)
  }
  if (burrow === undefined) throw new DormouseError('conflict', 'There is nothing to save yet.')
  const began = parts.now()
  body.write({ intent: 'snapshot' })
  let kept: SnapshotId
  try {
    if (kind === 'files') kept = await saveFiles(body, name, began)
    else kept = await saveAll(body, name, began)
  } catch (error) {
    body.write({ intent: null })
    throw error
  }
  if (kind === 'full') body.dropSnapshotLater(row.head)
  return found(body, kept)
}

async function saveAll(body: SandboxBody, name: string | undefined, began: number): Promise<SnapshotId> {
  const { row, burrow, parts } = body
  if (burrow === undefined) throw new DormouseError('internal', 'A running sandbox has no burrow.')
  await body.sample()
  const saved = await save(body, burrow, row.state === 'running' ? 'running' : 'frozen')
  settleInto(body, saved.burrow)
  const { snapshot } = saved
  const written = {
    change: { head: snapshot.id, lostSince: undefined },
    intent: null,
    entry: {
      event: 'snapshot' as const,
      cause: 'asked',
      latencyMs: parts.now() - began,
      bytes: snapshot.bytes.images + snapshot.bytes.memory,
    },
    alongside: () => parts.snapshots.put(snapshot, { owner: row.owner, name, isKept: true }),
  }
  if (saved.burrow === undefined && row.state === 'running')
    body.move('standby', { ...written, change: { ...written.change, tier: 'stored' } })
  else body.write(written)
  return snapshot.id
}

/** Only the files, and without a break for the processes. */
async function saveFiles(body: SandboxBody, name: string | undefined, began: number): Promise<SnapshotId> {
  const { row, burrow, parts } = body
  if (burrow === undefined) throw new DormouseError('internal', 'A running sandbox has no burrow.')
  const { snapshot, burrow: next } = await parts.engine.snapshot(burrow, { leave: 'running', kind: 'files' })
  if (next !== undefined && next !== burrow) settleInto(body, next)
  body.write({
    intent: null,
    entry: { event: 'snapshot', cause: 'asked', latencyMs: parts.now() - began, detail: 'files only' },
    alongside: () => parts.snapshots.put(snapshot, { owner: row.owner, name, isKept: true }),
  })
  return snapshot.id
}

function found(body: SandboxBody, id: SnapshotId): SnapshotRow {
  const snapshot = body.parts.snapshots.get(id)
  if (snapshot === undefined)
    throw new DormouseError('internal', 'A snapshot that was just taken is not on record.')
  return snapshot
}
