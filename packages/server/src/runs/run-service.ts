import { DormouseError, type RunId, type SandboxId } from '@dormouse/contracts'
import type { RunAnswer } from '@dormouse/contracts/http'
import type { RunInput } from '@dormouse/engine'
import type { SandboxHandle } from '../sandbox/sandbox-handle.ts'
import type { SandboxListener } from '../sandbox/sandbox-listener.ts'
import type { Page } from '../store/page.ts'
import { entryOf } from './bound-event.ts'
import { LiveRuns, type RunDependencies } from './live-runs.ts'
import { lostEvents, PROCESSES_ENDED } from './lost-events.ts'
import { type RunToRead, readEvents, readResult } from './read-run.ts'
import type { RunRow } from './run-rows.ts'
import type { Run, Runs, StartRunRequest } from './runs.ts'
import { startRun } from './start-run.ts'

/**
 * Starts, finds and lists runs of all sandboxes, and follows runs that earlier servers and parent sandboxes left
 * open.
 */
export class RunService implements Runs, Disposable {
  readonly #deps: RunDependencies
  readonly #live: LiveRuns

  constructor(deps: RunDependencies) {
    this.#deps = deps
    this.#live = new LiveRuns(deps)
  }

  [Symbol.dispose](): void {
    this.#live[Symbol.dispose]()
  }

  /** How many runs are under way. */
  get liveCount(): number {
    return this.#live.count
  }

  async start(sandbox: SandboxHandle, request: StartRunRequest): Promise<Run> {
    const { row, live } = await startRun(this.#live, sandbox, request)
    return this.#run({ row, started: live, timeoutMs: request.timeoutMs })
  }

  get(sandbox: { readonly id: SandboxId }, runId: string): Run {
    return this.#run({ row: this.#row(sandbox.id, runId) })
  }

  list(sandbox: { readonly id: SandboxId }, query: { limit: number; cursor?: string }): Page<RunAnswer> {
    const { items, nextCursor } = this.#deps.journal.list(sandbox.id, query)
    return { items: items.map(viewOf), nextCursor }
  }

  async interrupt(sandbox: SandboxHandle, runId: string): Promise<'interrupting' | 'cancelled' | 'finished'> {
    const row = this.#row(sandbox.id, runId)
    if (row.state === 'finished' || row.state === 'lost') return 'finished'
    return sandbox.use({ cause: 'run', what: `interrupt of ${runId}` }, (guest) =>
      guest.runs.interrupt(runId),
    )
  }

  async input(sandbox: SandboxHandle, runId: string, answer: RunInput): Promise<void> {
    const { state } = this.#row(sandbox.id, runId)
    if (state === 'finished' || state === 'lost')
      throw new DormouseError('conflict', `The run ${runId} has ended, so it reads no input.`)
    await sandbox.use({ cause: 'run', what: `input for ${runId}` }, (guest) =>
      guest.runs.input(runId, answer),
    )
  }

  /** Follows what happens to sandboxes. */
  get listener(): SandboxListener {
    const { journal, space } = this.#deps
    return {
      awake: ({ id }, { isContinued }) => {
        for (const run of this.#live.of(id)) run.continues()
        if (!isContinued) for (const run of this.#live.of(id)) run.abandonIfSent()
        // The sandbox may not be in the index yet.
        setImmediate(() => this.#followOpen(id))
      },
      forked: (parent, child) => journal.copyOpen(parent.id, child.id),
      deleted: ({ id }) => {
        for (const run of this.#live.of(id)) run.release()
        space.forget(id)
        this.#live.notifyAllOf(id)
      },
      paused: ({ id }, error) => {
        for (const run of this.#live.of(id)) run.isPaused(error)
      },
      lost: ({ id }) => {
        for (const run of this.#live.of(id)) run.loseIfSent()
        this.#endLost(id)
      },
    }
  }

  /** Starts runs that an earlier server accepted and did not begin. Pre: all sandboxes are in the index. */
  startQueued(): void {
    for (const row of this.#deps.journal.queued()) this.#followRow(row)
  }

  /** Removes runs of sandboxes that no longer exist. Pre: all sandboxes are in the index. */
  removeOrphans(): void {
    const { journal, space, findSandbox } = this.#deps
    for (const id of journal.sandboxIds()) if (findSandbox(id) === undefined) space.forget(id)
  }

  /** Follows runs that an earlier server, or the parent of a fork, had under way. */
  #followOpen(id: SandboxId): void {
    if (this.#live.isClosed) return
    for (const row of this.#deps.journal.open(id)) this.#followRow(row)
  }

  #followRow(row: RunRow): void {
    const { journal, findSandbox } = this.#deps
    const sandbox = findSandbox(row.sandboxId)
    if (sandbox === undefined || this.#live.find(row) !== undefined) return
    const request = row.isUnsent ? journal.requestOf(row.id) : undefined
    this.#live.follow({ sandbox, row, isResumed: true, ...(request && { request }) })
  }

  /** Ends runs that were under way in processes that are gone, and that this server does not follow. */
  #endLost(id: SandboxId): void {
    const { journal, log } = this.#deps
    try {
      for (const row of journal.open(id))
        if (!row.isUnsent && this.#live.find(row) === undefined) this.#endRow(row)
    } catch (error) {
      // The next wake ends them.
      log.warn({ sandboxId: id, err: error }, 'the end of lost runs could not be recorded')
    }
  }

  #endRow(row: RunRow): void {
    const { journal, clock } = this.#deps
    const events = lostEvents(journal.lastSeq(row.id), PROCESSES_ENDED, clock.wallMs() - row.startedAt)
    journal.append({ run: row.id, entries: events.map(entryOf), now: clock.wallMs(), isLost: true })
    this.#live.notify(row)
  }

  #row(sandboxId: SandboxId, runId: string): RunRow {
    const row = this.#deps.journal.get(sandboxId, runId)
    if (row === undefined)
      throw new DormouseError('not_found', `There is no run ${runId} in this sandbox.`, {
        hint: 'Old runs are dropped from the journal. List those that are there.',
      })
    return row
  }

  #run(run: RunToRead): Run {
    const { row } = run
    const events: Run['events'] = (options) => readEvents(this.#live, run, options)
    return {
      runId: row.runId as RunId,
      view: () => viewOf(this.#deps.journal.get(row.sandboxId, row.runId) ?? row),
      events,
      result: (signal) => readResult(this.#live, row, events({ signal })),
    }
  }
}

function viewOf(row: RunRow): RunAnswer {
  return {
    runId: row.runId,
    sandboxId: row.sandboxId,
    context: row.context,
    language: row.language,
    state: row.state,
    startedAt: new Date(row.startedAt).toISOString(),
    finishedAt: row.finishedAt === undefined ? undefined : new Date(row.finishedAt).toISOString(),
    exitCode: row.exitCode,
    code: row.code,
    ...(row.isCodeCut && { isCodeCut: true }),
  }
}
