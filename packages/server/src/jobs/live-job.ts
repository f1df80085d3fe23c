import type { SandboxId } from '@dormouse/contracts'
import type { JobRow } from './job-rows.ts'
import type { Attempt } from './task-rows.ts'

/** A job that has not ended, as this server works on it. */
export class LiveJob {
  row: JobRow
  /** Attempts under way on this host. Aborting one ends it. */
  readonly running = new Map<string, { readonly attempt: Attempt; readonly stop: AbortController }>()
  /** Sandboxes that wait for their next task, with `sandboxPer: 'worker'`. */
  readonly idleWorkers: SandboxId[] = []
  /** Tasks may be waiting. */
  mayHaveQueued = true
  /** Until then its tasks are left to other hosts. */
  othersUntil: number | undefined
  isEnding = false
  /** What this host had for the job is removed. */
  isLeft = false
  /** Events up to this one are on disk. */
  visibleSeq: number

  constructor(row: JobRow) {
    this.row = row
    this.visibleSeq = row.lastSeq
  }

  get hasRoom(): boolean {
    return (
      this.row.state === 'running' && this.mayHaveQueued && this.running.size < this.row.request.concurrency
    )
  }
}

/** Which job starts its next task first: by priority, then the one with the fewest running tasks, then the oldest. */
export function comesBefore(a: LiveJob, b: LiveJob): number {
  return (
    b.row.request.priority - a.row.request.priority ||
    a.running.size - b.running.size ||
    a.row.createdAt - b.row.createdAt
  )
}
