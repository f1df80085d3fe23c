import { applyCommand, type JobCommand, type JobOutcome, type JobTables } from './job-command.ts'
import type { JobRow } from './job-rows.ts'
import { NO_WORKER, type Worker } from './task-rows.ts'

/** Hears of every command after it was applied, in order. */
export type JobListener = (command: JobCommand, outcome: JobOutcome) => void

/** When this host may take a task of a job: `later` leaves it to a host with fewer tasks for a moment. */
export type Turn = 'now' | 'later' | 'never'

/** The order of commands. One host applies them at once; hosts of a cluster agree on the order first. */
export interface JobLog {
  /** This host, by its present lease. */
  readonly self: Worker
  /** Resolves when the command was applied here and cannot be lost. Throws when it is not known whether it was. */
  submit(command: JobCommand): Promise<JobOutcome>
  turnOf(job: JobRow): Turn
  /** The only listener. */
  listen(listener: JobListener): void
}

/** The log of a server outside a cluster: tables on its disk. */
export class LocalJobLog implements JobLog {
  readonly self = NO_WORKER
  readonly #tables: JobTables
  #listener: JobListener = () => {}

  constructor(tables: JobTables) {
    this.#tables = tables
  }

  async submit(command: JobCommand): Promise<JobOutcome> {
    const outcome = applyCommand(this.#tables, command, { self: NO_WORKER.host })
    // Ends of many tasks share one write to the disk; a reader sees them afterwards.
    if (command.type === 'end' || command.type === 'requeue') await this.#tables.tasks.sync()
    this.#listener(command, outcome)
    return outcome
  }

  turnOf(): Turn {
    return 'now'
  }

  listen(listener: JobListener): void {
    this.#listener = listener
  }
}
