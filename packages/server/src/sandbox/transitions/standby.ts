import { abortable } from '@dormouse/async'
import { DormouseError, type SnapshotId } from '@dormouse/contracts'
import type { Burrow, LimitRestore, Snapshot, SnapshotOptions } from '@dormouse/engine'
import type { Tier } from '../../store/sandbox-rows.ts'
import { collectVariables } from '../collect-variables.ts'
import { endBurrow } from '../end-burrow.ts'
import type { Sandbox } from '../sandbox.ts'
import { reasonOf } from '../sandbox-errors.ts'
import { timerWakeAt } from '../timer-wakes.ts'
import type { StandbyCause } from '../use-options.ts'

/** After each refusal the next automatic attempt waits twice as long: the reason often persists. */
const RETRY_MS = 10_000
const RETRY_MAX_MS = 10 * 60_000

export interface Standby {
  readonly tier: Tier
  readonly cause: StandbyCause
  readonly pausedAtBytes?: number
  /** An abort keeps the sandbox awake, unless its snapshot is on disk already. */
  readonly signal?: AbortSignal | undefined
}

/** Puts a sandbox to sleep. Pre: the caller holds the lock alone. After a refusal or an abort the sandbox runs. */
export async function standby(
  sandbox: Sandbox,
  { tier, cause, pausedAtBytes, signal }: Standby,
): Promise<void> {
  const { row, burrow, deps } = sandbox
  // Work may have begun while this waited for the lock.
  if (cause === 'idle' && (sandbox.work.isBusy || signal?.aborted || row.state !== 'running')) return
  if (row.state === 'standby') {
    if (tier === 'stored' && row.tier === 'frozen') await store(sandbox, cause)
    return
  }
  if (burrow === undefined) throw new DormouseError('internal', 'A running sandbox has no burrow.')
  const began = performance.now()
  // Paused processes wait for memory and answer nothing. A call does not wait for the answer.
  const asking = cause === 'memory_limit' ? undefined : abortable(collectVariables(sandbox, burrow), signal)
  const [variables] = await Promise.all([asking?.catch(() => undefined), sandbox.sample()])
  if (signal?.aborted) return
  // Does not wait for the disk: after a power cut, recovery treats `running` and `suspending` alike.
  sandbox.move('suspending', { intent: 'standby', withoutSync: true })
  const leave = tier === 'frozen' ? 'frozen' : 'gone'
  const saved = await save(sandbox, burrow, leave, signal && { signal }).catch(async (error) => {
    const isInterrupted = signal?.aborted === true && error === signal.reason
    await sandbox.recordOutcome(() =>
      isInterrupted ? sandbox.move('running', { intent: null }) : recordRefusal(sandbox, error),
    )
    if (!isInterrupted) throw error
  })
  if (saved === undefined) return
  const reached = saved.burrow === undefined ? 'stored' : 'frozen'
  const latencyMs = performance.now() - began
  // Together with the commit: recorded events of runs are then as durable as the sandbox's memory of those runs.
  const synced = deps.journal.sync()
  await sandbox.recordOutcome(async () => {
    const snapshot = await saved.snapshot()
    sandbox.move('standby', {
      fields: {
        tier: reached,
        head: snapshot.id,
        lostSince: undefined,
        pausedAtBytes,
        wakesAt: timerWakeAt(sandbox, snapshot),
      },
      newBurrow: saved.burrow === undefined ? null : { burrow: saved.burrow, isContinued: true },
      intent: null,
      entry: { event: 'slept', cause, tier: reached, latencyMs, bytes: bytesOf(snapshot) },
      inTransaction: () => {
        deps.snapshots.put(snapshot, { owner: row.owner, isKept: false })
        if (variables !== undefined) deps.variables.put(snapshot.id, variables)
      },
    })
    sandbox.refusal = undefined
    sandbox.dropSnapshotLater(row.head)
  }, saved.burrow)
  // A call that waits does not wait for this. A failing disk also fails the next commit, which reports it.
  await abortable(synced, signal).catch((error: unknown) => {
    if (signal?.aborted !== true) throw error
  })
}

/** From tier `frozen` to tier `stored`. The snapshot on disk is what is in memory, so there is nothing to save. */
async function store(sandbox: Sandbox, cause: StandbyCause): Promise<void> {
  const began = performance.now()
  await endBurrow(sandbox.deps, sandbox.burrow)
  const latencyMs = performance.now() - began
  await sandbox.recordOutcome(() =>
    sandbox.write({
      fields: { tier: 'stored' },
      newBurrow: null,
      entry: { event: 'stored', cause, tier: 'stored', latencyMs },
    }),
  )
}

export interface Saved {
  readonly snapshotId: SnapshotId
  readonly snapshot: () => Promise<Snapshot>
  /** Undefined: the burrow is gone, and the sandbox is asleep on disk. */
  readonly burrow: Burrow | undefined
}

/** Saves memory and files. A sandbox that is saved but does not resume is asleep on disk, and nothing is lost. */
export async function save(
  sandbox: Sandbox,
  burrow: Burrow,
  leave: 'running' | 'frozen' | 'gone',
  how: Pick<SnapshotOptions, 'signal' | 'isUnsynced'> = {},
): Promise<Saved> {
  const { engine, network, starts, log } = sandbox.deps
  const { wakeOnTimer: keepTimers } = sandbox.row
  if (leave !== 'running') network.endAwaited(sandbox.id)
  try {
    const limitRestore: LimitRestore = (_id, restore) => starts.runUrgent(restore)
    const options = { leave, keepTimers, limitRestore, ...how }
    const { snapshot, burrow: next, resumeError, connections } = await engine.snapshot(burrow, options)
    const { id: snapshotId } = snapshot
    network.saved(sandbox.id, snapshotId, connections)
    if (resumeError !== undefined)
      log.warn(
        { sandboxId: sandbox.id, snapshotId, err: resumeError },
        'a sandbox was saved and did not resume',
      )
    return { snapshotId, snapshot: async () => snapshot, burrow: next }
  } catch (error) {
    const snapshotId = await storedAs(burrow)
    if (snapshotId === undefined) throw error
    log.warn({ sandboxId: sandbox.id, snapshotId, err: error }, 'a sandbox was saved and did not resume')
    return { snapshotId, snapshot: () => engine.getSnapshot(snapshotId), burrow: undefined }
  }
}

/**
 * The snapshot that the engine ended this burrow with, if it did. Does not look at errors: an error may come from
 * inside the sandbox.
 */
export async function storedAs(burrow: Burrow): Promise<SnapshotId | undefined> {
  const end = await Promise.race([burrow.ended, undefined])
  return end?.reason === 'stored' ? end.snapshotId : undefined
}

export function bytesOf({ bytes }: Snapshot): number {
  return bytes.images + bytes.memory
}

function recordRefusal(sandbox: Sandbox, error: unknown): void {
  const count = (sandbox.refusal?.count ?? 0) + 1
  const reason = reasonOf(error)
  const retryAtMs = sandbox.deps.clock.monotonicMs() + Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** (count - 1))
  sandbox.refusal = { reason, retryAtMs, count }
  sandbox.move('running', {
    intent: null,
    entry: { event: 'refused', cause: 'standby', detail: reason },
  })
}
