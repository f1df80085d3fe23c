import type { SandboxId } from '@dormouse/contracts'
import type { JobRow } from './job-rows.ts'

/** A job that has not ended, as this server works on it. */
export class LiveJob {
  row: JobRow
  /** Attempts under way, by task. Aborting one ends it. */
  readonly running = new Map<number, AbortController>()
  /** Sandboxes that wait for their next task, with `sandboxPer: 'worker'`. */
  readonly idleWorkers: SandboxId[] = []
  /** Tasks may be waiting. */
  mayHaveQueued = true
  isEnding = false
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
