import { DormouseError, type SnapshotId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { SnapshotRow } from '../../store/snapshot-rows.ts'
import type { Move, SandboxBody } from '../sandbox-body.ts'
import { bytesOf, save } from './standby.ts'

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
  const began = performance.now()
  body.write({ intent: 'snapshot' })
  const kept = await (kind === 'files' ? saveFiles : saveAll)(body, burrow, { name, began })
  return found(body, kept)
}

interface Keep {
  readonly name: string | undefined
  readonly began: number
}

async function saveAll(body: SandboxBody, burrow: Burrow, { name, began }: Keep): Promise<SnapshotId> {
  const { row, parts } = body
  await body.sample()
  const saved = await save(body, burrow, row.state === 'running' ? 'running' : 'frozen').catch((error) => {
    body.write({ intent: null })
    throw error
  })
  const latencyMs = performance.now() - began
  await body.conclude(async () => {
    const snapshot = await saved.snapshot()
    const isAsleep = saved.burrow === undefined
    const written: Move = {
      change: { head: snapshot.id, lostSince: undefined, ...(isAsleep && { tier: 'stored' }) },
      arrival: saved.burrow === undefined ? null : { burrow: saved.burrow, isContinued: true },
      intent: null,
      entry: { event: 'snapshot', cause: 'asked', latencyMs, bytes: bytesOf(snapshot) },
      alongside: () => parts.snapshots.put(snapshot, { owner: row.owner, name, isKept: true }),
    }
    if (isAsleep && row.state === 'running') body.move('standby', written)
    else body.write(written)
    body.dropSnapshotLater(row.head)
  }, saved.burrow)
  return saved.snapshotId
}

/** Only the files, and without a break for the processes. */
async function saveFiles(body: SandboxBody, burrow: Burrow, { name, began }: Keep): Promise<SnapshotId> {
  const { row, parts } = body
  const { snapshot } = await parts.engine
    .snapshot(burrow, { leave: 'running', kind: 'files' })
    .catch((error: unknown) => {
      body.write({ intent: null })
      throw error
    })
  const latencyMs = performance.now() - began
  await body.conclude(() => {
    body.write({
      intent: null,
      entry: { event: 'snapshot', cause: 'asked', latencyMs, detail: 'files only' },
      alongside: () => parts.snapshots.put(snapshot, { owner: row.owner, name, isKept: true }),
    })
  })
  return snapshot.id
}

function found(body: SandboxBody, id: SnapshotId): SnapshotRow {
  const snapshot = body.parts.snapshots.get(id)
  if (snapshot === undefined)
    throw new DormouseError('internal', 'A snapshot that was just taken is not on record.')
  return snapshot
}
