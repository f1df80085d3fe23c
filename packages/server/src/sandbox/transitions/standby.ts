import { DormouseError, type SnapshotId } from '@dormouse/contracts'
import type { Burrow, LimitRestore, Snapshot } from '@dormouse/engine'
import type { Tier } from '../../store/sandbox-rows.ts'
import { endBurrow } from '../end-burrow.ts'
import type { SandboxBody } from '../sandbox-body.ts'
import type { StandbyCause } from '../service.ts'

/** After a refusal the next attempt by itself comes later and later: what stands in the way is often there to stay. */
const RETRY_MS = 10_000
const RETRY_MAX_MS = 10 * 60_000

/** Puts it to sleep. Pre: an exclusive turn. A refusal leaves it running. */
export async function standby(
  body: SandboxBody,
  { tier, cause }: { tier: Tier; cause: StandbyCause },
): Promise<void> {
  const { row, burrow, parts } = body
  if (row.state === 'standby') {
    if (tier === 'stored' && row.tier === 'frozen') await store(body, cause)
    return
  }
  if (burrow === undefined) throw new DormouseError('internal', 'A running sandbox has no burrow.')
  const began = performance.now()
  await body.sample()
  body.move('suspending', { intent: 'standby' })
  const saved = await save(body, burrow, tier === 'frozen' ? 'frozen' : 'gone').catch(async (error) => {
    await body.conclude(() => refuse(body, error))
    throw error
  })
  const reached = saved.burrow === undefined ? 'stored' : 'frozen'
  const latencyMs = performance.now() - began
  // Beside the commit: the disk gets both in one go. What it has heard of its runs is then as safe as what it remembers of them.
  const synced = parts.syncRuns()
  await body.conclude(async () => {
    const snapshot = await saved.snapshot()
    body.move('standby', {
      change: { tier: reached, head: snapshot.id, lostSince: undefined },
      arrival: saved.burrow === undefined ? null : { burrow: saved.burrow, isContinued: true },
      intent: null,
      entry: { event: 'slept', cause, tier: reached, latencyMs, bytes: bytesOf(snapshot) },
      alongside: () => parts.snapshots.put(snapshot, { owner: row.owner, isKept: false }),
    })
    body.refusal = undefined
    body.dropSnapshotLater(row.head)
  }, saved.burrow)
  await synced
}

/** From frozen to disk only. What is on disk is what is in memory, so there is nothing to save. */
async function store(body: SandboxBody, cause: StandbyCause): Promise<void> {
  const { burrow, parts } = body
  const began = performance.now()
  await endBurrow(parts, burrow)
  const latencyMs = performance.now() - began
  await body.conclude(() => {
    const entry = { event: 'stored', cause, tier: 'stored', latencyMs } as const
    body.write({ change: { tier: 'stored' }, arrival: null, entry })
  })
}

export interface Saved {
  readonly snapshotId: SnapshotId
  readonly snapshot: () => Promise<Snapshot>
  readonly burrow: Burrow | undefined
}

/** Saves it. A sandbox that is saved and does not resume is asleep on disk, and nothing is lost. */
export async function save(
  body: SandboxBody,
  burrow: Burrow,
  leave: 'running' | 'frozen' | 'gone',
): Promise<Saved> {
  const { engine, admission, log } = body.parts
  try {
    const limitRestore: LimitRestore = (_id, restore) => admission.goOn(restore)
    const { snapshot, burrow: next, resumeError } = await engine.snapshot(burrow, { leave, limitRestore })
    const { id: snapshotId } = snapshot
    if (resumeError !== undefined)
      log.warn({ sandboxId: body.id, snapshotId, err: resumeError }, 'a sandbox was saved and did not resume')
    return { snapshotId, snapshot: async () => snapshot, burrow: next }
  } catch (error) {
    const snapshotId = await storedAs(burrow)
    if (snapshotId === undefined) throw error
    log.warn({ sandboxId: body.id, snapshotId, err: error }, 'a sandbox was saved and did not resume')
    return { snapshotId, snapshot: () => engine.getSnapshot(snapshotId), burrow: undefined }
  }
}

/** The snapshot that the engine ended this burrow with, if it did. No error is asked: an error may come from inside the sandbox. */
export async function storedAs(burrow: Burrow): Promise<SnapshotId | undefined> {
  const end = await Promise.race([burrow.ended, undefined])
  return end?.reason === 'stored' ? end.snapshotId : undefined
}

export function bytesOf({ bytes }: Snapshot): number {
  return bytes.images + bytes.memory
}

function refuse(body: SandboxBody, error: unknown): void {
  const count = (body.refusal?.count ?? 0) + 1
  const reason = error instanceof DormouseError ? error.message : 'An inner error; the server log has it.'
  const retryAtMs = body.parts.clock.monotonicMs() + Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** (count - 1))
  body.refusal = { reason, retryAtMs, count }
  body.move('running', {
    intent: null,
    entry: { event: 'refused', cause: 'standby', detail: reason },
  })
}
