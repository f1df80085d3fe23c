import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  DormouseError,
  newRunId,
  type RunEvent,
  type RunId,
  type RunResult,
  type SandboxId,
} from '@dormouse/contracts'
import type { RunAnswer } from '@dormouse/contracts/http'
import type { StartRun } from '@dormouse/engine'
import { RunCollector } from '@dormouse/guest'
import type { ServerClock } from '../clock/server-clock.ts'
import type { Log } from '../log.ts'
import type { LiveSandbox } from '../sandbox/live-sandbox.ts'
import type { SandboxListener } from '../sandbox/sandbox-listener.ts'
import type { Sandbox } from '../sandbox/service.ts'
import type { Page } from '../store/page.ts'
import { Arrivals } from './arrivals.ts'
import { entryOf, unseenPart } from './bound-event.ts'
import type { JournalSpace } from './journal-space.ts'
import { RUN_OVERHEAD_BYTES } from './limits.ts'
import { LiveRun, type LiveRunParts } from './live-run.ts'
import { lostEvents, PROCESSES_ENDED } from './lost-run.ts'
import { OutputPacer } from './output-pacer.ts'
import { RunDeadline, unfinished } from './run-deadline.ts'
import type { RunJournal, RunRow } from './run-journal.ts'
import type { Run, Runs, StartRunRequest } from './runs.ts'

export interface RunServiceOptions {
  readonly journal: RunJournal
  readonly find: (id: SandboxId) => LiveSandbox | undefined
  readonly space: JournalSpace
  readonly clock: Pick<ServerClock, 'wallMs'>
  readonly log: Log
}

/** Runs of all sandboxes: started here, kept in the journal, followed from it. */
export class RunService implements Runs, Disposable {
  readonly #options: RunServiceOptions
  readonly #live = new Map<string, LiveRun>()
  readonly #arrivals = new Arrivals()
  readonly #pacer = new OutputPacer()
  #isClosed = false

  constructor(options: RunServiceOptions) {
    this.#options = options
  }

  /** Nothing more is written: the runs go on in their sandboxes, and the next server takes them up. */
  [Symbol.dispose](): void {
    this.#isClosed = true
    for (const run of this.#live.values()) run.release()
    this.#arrivals.tellAll()
  }

  /** How many are under way. */
  get liveCount(): number {
    return this.#live.size
  }

  get listener(): SandboxListener {
    const { journal, space, find } = this.#options
    return {
      awake: ({ id }, { isContinued }) => {
        if (!isContinued) for (const run of this.#of(id)) run.abandonIfSent()
        // The sandbox may not be known to the server yet.
        setImmediate(() => {
          const sandbox = this.#isClosed ? undefined : find(id)
          if (sandbox !== undefined) this.#takeUp(sandbox)
        })
      },
      forked: (parent, child) => journal.copyOpen(parent.id, child.id),
      deleted: ({ id }) => {
        // Nothing is written about it any more.
        for (const run of this.#of(id)) run.release()
        space.forget(id)
        this.#arrivals.tellAll(`${id} `)
      },
      lost: ({ id }) => {
        for (const run of this.#of(id)) run.loseIfSent()
        this.#endLost(id)
      },
    }
  }

  /** Settles when what runs have said so far is on disk also after a power cut, or cannot be brought there. */
  async sync(): Promise<void> {
    const { journal, log } = this.#options
    await journal
      .sync()
      .catch((error: unknown) => log.warn({ err: error }, 'the journal of runs is not on disk'))
  }

  /** Pre: all sandboxes are known. Runs that an earlier server took and that had not begun: they begin now, whether their caller asks again or not. */
  takeUpQueued(): void {
    const { journal, find } = this.#options
    for (const row of journal.queued()) {
      const sandbox = find(row.sandboxId)
      if (sandbox !== undefined && !this.#live.has(keyOf(row))) this.#takeUpRun(sandbox, row)
    }
  }

  /** Those that were under way in processes that are gone, and that nobody follows. */
  #endLost(id: SandboxId): void {
    const { journal, log } = this.#options
    try {
      for (const row of journal.open(id)) if (!row.isUnsent && !this.#live.has(keyOf(row))) this.#endRow(row)
    } catch (error) {
      // What cannot be written now is found out at the next wake.
      log.warn({ sandboxId: id, err: error }, 'the end of lost runs was not written down')
    }
  }

  #endRow(row: RunRow): void {
    const { journal, clock } = this.#options
    const events = lostEvents(journal.lastSeq(row.id), PROCESSES_ENDED, clock.wallMs() - row.startedAt)
    journal.append({ run: row.id, entries: events.map(entryOf), now: clock.wallMs(), isLost: true })
    this.#arrivals.tell(keyOf(row))
  }

  /** Entries of sandboxes that are no more. */
  collect(): void {
    const { journal, space, find } = this.#options
    for (const id of journal.sandboxIds()) if (find(id) === undefined) space.forget(id)
  }

  async start(sandbox: Sandbox, request: StartRunRequest): Promise<Run> {
    const { journal, space, clock } = this.#options
    const { idempotencyKey, ...asked } = request
    const requestHash = idempotencyKey === undefined ? undefined : hashOf(asked)
    if (idempotencyKey !== undefined) {
      const seen = journal.byKey(sandbox.id, idempotencyKey)
      if (seen !== undefined) {
        if (seen.requestHash !== requestHash)
          throw new DormouseError('idempotency_mismatch', 'This idempotencyKey was used for another request.')
        await this.#live.get(keyOf(seen))?.begun()
        return this.#run(seen, undefined, asked.timeoutMs)
      }
    }
    const start: StartRun = {
      code: asked.code,
      language: asked.language,
      ...(asked.context !== undefined && { context: asked.context }),
      ...(asked.timeoutMs !== undefined && { timeoutMs: asked.timeoutMs }),
    }
    const runId = newRunId()
    const live = sandbox as LiveSandbox
    const row = journal.add({
      sandboxId: sandbox.id,
      runId,
      context: asked.context ?? 'default',
      language: asked.language,
      idempotencyKey,
      requestHash,
      startedAt: clock.wallMs(),
      // One that is awake gets it at once.
      ...(live.body.runningBurrow() === undefined && { request: start }),
    })
    space.charge(sandbox.id, RUN_OVERHEAD_BYTES)
    const run = this.#follow({ sandbox: live, row, request: start })
    await run.begun()
    return this.#run(row, run, asked.timeoutMs)
  }

  get(sandbox: Sandbox, runId: string): Run {
    return this.#run(this.#row(sandbox.id, runId))
  }

  list(sandbox: Sandbox, query: { limit: number; cursor?: string }): Page<RunAnswer> {
    const { items, nextCursor } = this.#options.journal.list(sandbox.id, query)
    return { items: items.map(viewOf), nextCursor }
  }

  async interrupt(sandbox: Sandbox, runId: string): Promise<'interrupting' | 'cancelled' | 'finished'> {
    const row = this.#row(sandbox.id, runId)
    if (row.state === 'finished' || row.state === 'lost') return 'finished'
    return sandbox.use({ cause: 'run', what: `interrupt of ${runId}` }, (guest) =>
      guest.runs.interrupt(runId),
    )
  }

  #row(sandboxId: SandboxId, runId: string): RunRow {
    const row = this.#options.journal.get(sandboxId, runId)
    if (row === undefined)
      throw new DormouseError('not_found', `There is no run ${runId} in this sandbox.`, {
        hint: 'Old runs are dropped from the journal. List those that are there.',
      })
    return row
  }

  /** Goes on with what an earlier server, or the parent of a fork, had under way. */
  #takeUp(sandbox: LiveSandbox): void {
    for (const row of this.#options.journal.open(sandbox.id)) {
      if (!this.#live.has(keyOf(row))) this.#takeUpRun(sandbox, row)
    }
  }

  #takeUpRun(sandbox: LiveSandbox, row: RunRow): void {
    const request = row.isUnsent ? this.#options.journal.requestOf(row.id) : undefined
    this.#follow({ sandbox, row, isTakenUp: true, ...(request && { request }) })
  }

  #follow(parts: Pick<LiveRunParts, 'sandbox' | 'row' | 'request' | 'isTakenUp'>): LiveRun {
    const { journal, space, clock, log } = this.#options
    const { row } = parts
    const run = new LiveRun({ ...parts, journal, space, pacer: this.#pacer, clock, log })
    this.#live.set(keyOf(row), run)
    this.#arrivals.tell(keyOf(row))
    const done = () => {
      this.#live.delete(keyOf(row))
      if (!this.#isClosed && this.#options.find(row.sandboxId) !== undefined) space.ended(row.sandboxId)
    }
    run.over.then(done, done)
    return run
  }

  #of(id: SandboxId): LiveRun[] {
    return [...this.#live.values()].filter(({ row }) => row.sandboxId === id)
  }

  /** `started`: the caller has just begun it. `timeoutMs`: the caller does not wait much longer than that. */
  #run(row: RunRow, started?: LiveRun, timeoutMs?: number): Run {
    const events: Run['events'] = (options) =>
      timeoutMs === undefined
        ? this.#events(row, options, started)
        : this.#eventsInTime(row, options, started, new RunDeadline(timeoutMs))
    return {
      runId: row.runId as RunId,
      view: () => viewOf(this.#options.journal.get(row.sandboxId, row.runId) ?? row),
      events,
      result: (signal) => this.#result(row, events({ signal })),
    }
  }

  async *#eventsInTime(
    row: RunRow,
    options: Parameters<Run['events']>[0],
    started: LiveRun | undefined,
    deadline: RunDeadline,
  ): AsyncGenerator<RunEvent> {
    using _deadline = deadline
    yield* this.#events(row, options, started, deadline)
  }

  async *#events(
    row: RunRow,
    {
      after = -1,
      follow = true,
      signal,
    }: { after?: number; follow?: boolean; signal?: AbortSignal | undefined } = {},
    started?: LiveRun,
    deadline?: RunDeadline,
  ): AsyncGenerator<RunEvent> {
    const { journal } = this.#options
    let seq = after
    for (;;) {
      const live = this.#live.get(keyOf(row))
      // Asked for before the journal is read: what comes in between is not missed.
      const news = live?.news()
      const recent = (live ?? started)?.recent(seq)
      const page = recent === undefined ? journal.page(row.id, seq) : { events: recent, isFull: false }
      for (const event of page.events) {
        const unseen = unseenPart(event, seq)
        seq = event.seq
        deadline?.begin()
        yield unseen
        if (event.type === 'exit') return
      }
      // A long journal is read in pieces, and others get their turn between them.
      if (page.isFull) await nextTurn()
      if (signal?.aborted) return
      if (page.events.length > 0) continue
      if (!follow) return
      if (deadline?.hasPassed === true) throw this.#unfinished(row)
      if (deadline !== undefined && !this.#isWaiting(row, live)) deadline.begin()
      if (live !== undefined && news !== undefined) {
        await orAborted(news, signal, deadline)
        // Said at every attempt to write: whoever comes anew waits for the next one.
        if (live.trouble !== undefined && signal?.aborted !== true) throw live.trouble
        if (live.isOver) await live.over
      } else if (this.#isGone(row) || isAtRest(journal, row)) return
      else await orAborted(this.#arrivals.next(keyOf(row), signal), signal, deadline)
    }
  }

  /** Its sandbox was deleted. What the journal has of it goes later. */
  #isGone({ sandboxId, runId }: RunRow): boolean {
    const { journal, find } = this.#options
    const sandbox = find(sandboxId)
    const isDeleted = sandbox === undefined || sandbox.body.isDeleted
    return isDeleted || journal.get(sandboxId, runId) === undefined
  }

  /** Its time has not begun: its sandbox does not have it yet, or others of its context come first. */
  #isWaiting(row: RunRow, live: LiveRun | undefined): boolean {
    if (live === undefined) return false
    const isBehind = this.#of(row.sandboxId).some(
      (other) => other.row.context === row.context && other.row.id < row.id && !other.isOver,
    )
    return !live.isSent || isBehind
  }

  #unfinished(row: RunRow): DormouseError {
    const { journal, find } = this.#options
    const { runId, sandboxId } = row
    const state = (journal.get(sandboxId, runId) ?? row).state
    return unfinished({ runId, state, sandboxState: find(sandboxId)?.view().state ?? 'deleted' })
  }

  async #result(row: RunRow, events: AsyncIterable<RunEvent>): Promise<RunResult> {
    const collector = new RunCollector(row.runId)
    let hasEnded = false
    for await (const event of events) {
      collector.add(event)
      hasEnded ||= event.type === 'exit'
    }
    if (hasEnded) return collector.result()
    if (this.#isGone(row))
      throw new DormouseError('not_found', 'The sandbox was deleted in the middle of the run.')
    throw new DormouseError('cancelled', 'The caller gave up before the end of the run.')
  }
}

function isAtRest(journal: RunJournal, { sandboxId, runId }: RunRow): boolean {
  const row = journal.get(sandboxId, runId)
  return row === undefined || row.state === 'finished' || row.state === 'lost'
}

async function orAborted(
  news: Promise<void>,
  signal: AbortSignal | undefined,
  deadline: RunDeadline | undefined,
): Promise<void> {
  const work = deadline === undefined ? news : deadline.orPassed(news)
  if (signal === undefined) return work
  await new Promise<void>((resolve) => {
    const stop = () => {
      signal.removeEventListener('abort', stop)
      resolve()
    }
    signal.addEventListener('abort', stop, { once: true })
    work.then(stop, stop)
  })
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
  }
}

function keyOf({ sandboxId, runId }: RunRow): string {
  return `${sandboxId} ${runId}`
}

function hashOf(request: Omit<StartRunRequest, 'idempotencyKey'>): string {
  const { code, language, context, timeoutMs } = request
  return createHash('sha256')
    .update(JSON.stringify([code, language, context, timeoutMs]))
    .digest('base64url')
}
