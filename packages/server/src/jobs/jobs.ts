import type { JobAnswer, JobEventAnswer, TaskAnswer, TaskPageAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { Page } from '../store/page.ts'
import type { CreateJob } from './job-rows.ts'

export interface ReadJobEvents {
  /** Only events with a higher `seq`. */
  readonly after: number
  readonly results: boolean
  readonly signal: AbortSignal
}

/** What the API uses of jobs. Throws `not_found` for jobs of other keys. */
export interface Jobs {
  /** Post: the job is on disk, and so is the state of the sandbox that it starts from. */
  create(request: CreateJob, caller: Caller): Promise<{ job: JobAnswer; isNew: boolean }>
  get(id: string, caller: Caller): JobAnswer
  list(query: { limit: number; cursor?: string }, caller: Caller): Page<JobAnswer>
  task(id: string, index: number, caller: Caller): TaskAnswer
  tasks(
    id: string,
    query: { state?: TaskAnswer['state']; after: number; limit: number; results: boolean },
    caller: Caller,
  ): TaskPageAnswer
  /** Ended tasks in the order in which they ended, and `end` once the job has. */
  events(id: string, options: ReadJobEvents, caller: Caller): AsyncIterable<JobEventAnswer>
  /** Tasks that wait never start, and those that run are stopped. Cancelling again, or too late, does nothing. */
  cancel(id: string, caller: Caller): Promise<JobAnswer>
  /** Deletes an ended job with its results. Throws `in_use` while it is under way. */
  delete(id: string, caller: Caller): Promise<void>
  /** Throws `in_use` when a job under way starts sandboxes from this snapshot. */
  requireUnused(snapshotId: string): void
}
