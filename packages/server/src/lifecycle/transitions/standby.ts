import { DormouseError, isSnapshotId, type SnapshotId } from '@dormouse/contracts'
import type { Admit, Burrow, Snapshot } from '@dormouse/engine'
import type { SandboxBody } from '../sandbox-body.ts'
import type { StandbyCause, Tier } from '../service.ts'

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
  const began = parts.now()
  await body.sample()
  body.move('suspending', { intent: 'standby' })
  const saved = await save(body, burrow, tier === 'frozen' ? 'frozen' : 'gone').catch((error: unknown) => {
    refuse(body, error)
    throw error
  })
  settleInto(body, saved.burrow)
  const { snapshot } = saved
  body.move('standby', {
    change: {
      tier: saved.burrow === undefined ? 'stored' : 'frozen',
      head: snapshot.id,
      lostSince: undefined,
    },
    intent: null,
    entry: {
      event: 'slept',
      cause,
      tier: saved.burrow === undefined ? 'stored' : 'frozen',
      latencyMs: parts.now() - began,
      bytes: snapshot.bytes.images + snapshot.bytes.memory,
    },
    alongside: () => parts.snapshots.put(snapshot, { owner: row.owner, isKept: false }),
  })
  body.refusal = undefined
  body.dropSnapshotLater(row.head)
}

/** From frozen to disk only. What is on disk is what is in memory, so there is nothing to save. */
async function store(body: SandboxBody, cause: StandbyCause): Promise<void> {
  const { burrow, parts } = body
  const began = parts.now()
  body.leave()
  await burrow?.destroy()
  body.write({
    change: { tier: 'stored' },
    entry: { event: 'stored', cause, tier: 'stored', latencyMs: parts.now() - began },
  })
}

export interface Saved {
  readonly snapshot: Snapshot
  readonly burrow: Burrow | undefined
}

/** A snapshot whose continuation failed is a snapshot all the same: then it is asleep on disk, and nothing is lost. */
export async function save(
  body: SandboxBody,
  burrow: Burrow,
  leave: 'running' | 'frozen' | 'gone',
): Promise<Saved> {
  const { engine, admission, log } = body.parts
  try {
    const admit: Admit = (_id, restore) => admission.goOn(restore)
    const { snapshot, burrow: next } = await engine.snapshot(burrow, { leave, admit })
    return { snapshot, burrow: next }
  } catch (error) {
    const snapshotId = savedAs(error)
    if (snapshotId === undefined) throw error
    log.warn({ sandboxId: body.id, snapshotId, err: error }, 'saved, but could not go on from there')
    return { snapshot: await engine.getSnapshot(snapshotId), burrow: undefined }
  }
}

/** The snapshot that an error says everything is in. */
export function savedAs(error: unknown): SnapshotId | undefined {
  if (!(error instanceof DormouseError) || error.code !== 'restore_failed') return undefined
  const { snapshotId } = error.details
  return typeof snapshotId === 'string' && isSnapshotId(snapshotId) ? snapshotId : undefined
}

export function settleInto(body: SandboxBody, burrow: Burrow | undefined): void {
  if (burrow === undefined) body.leave()
  else body.enter(burrow, { isContinued: true })
}

function refuse(body: SandboxBody, error: unknown): void {
  const count = (body.refusal?.count ?? 0) + 1
  const reason = error instanceof DormouseError ? error.message : 'An inner error; the server log has it.'
  const retryAt = body.parts.now() + Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** (count - 1))
  body.refusal = { reason, retryAt, count }
  body.move('running', {
    intent: null,
    entry: { event: 'refused', cause: 'standby', detail: reason },
  })
}
