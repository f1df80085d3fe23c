import type { Burrow } from '@dormouse/engine'
import type { Sandbox } from '../sandbox.ts'
import { reasonOf } from '../sandbox-errors.ts'
import type { WakeCause } from '../use-options.ts'

/**
 * The sandbox lives in this burrow from now on. Writes state, outcome and ledger entry in one transaction; then the
 * sandbox enters the burrow, which opens its network and lets streams and queued runs continue.
 */
export async function recordWake(
  sandbox: Sandbox,
  burrow: Burrow,
  { cause, latencyMs }: { cause: WakeCause; latencyMs: number },
): Promise<void> {
  const { row, deps } = sandbox
  const head = row.head === undefined ? undefined : deps.snapshots.get(row.head)
  const bytes = head === undefined ? 0 : head.imageBytes + head.memoryBytes
  sandbox.work.woke(cause)
  await sandbox.recordOutcome(
    () =>
      sandbox.move('running', {
        fields: { tier: undefined, pausedAtBytes: undefined },
        newBurrow: { burrow, isContinued: row.lostSince === undefined },
        intent: null,
        entry: { event: 'woke', cause, tier: 'stored', latencyMs, bytes },
        withoutSync: true,
      }),
    burrow,
  )
}

/** The sandbox sleeps as before. */
export async function recordFailedWake(sandbox: Sandbox, error: unknown): Promise<void> {
  await sandbox.recordOutcome(() =>
    sandbox.move('standby', {
      fields: { tier: 'stored' },
      intent: null,
      entry: { event: 'failed', cause: 'wake', detail: reasonOf(error) },
    }),
  )
}
