import { createHash } from 'node:crypto'
import {
  DormouseError,
  newRunId,
  type RunEvent,
  type RunId,
  type RunResult,
  type SandboxId,
} from '@dormouse/contracts'
import type { StartRun } from '@dormouse/engine'
import { RunCollector } from '@dormouse/guest'
import type { LiveSandbox } from '../lifecycle/live-sandbox.ts'
import type { LifecycleListener, Log } from '../lifecycle/parts.ts'
import type { Page, Run, Runs, RunView, Sandbox, StartRunRequest } from '../lifecycle/service.ts'
import { LiveRun } from './live-run.ts'
import type { RunJournal, RunRow } from './run-journal.ts'

export interface RunServiceOptions {
  readonly journal: RunJournal
  readonly find: (id: SandboxId) => LiveSandbox | undefined
  readonly now: () => number
  readonly keepRuns: number
  readonly keepMs: number
  readonly log: Log
}

/** How many runs end before old ones are looked for. */
const PRUNE_EVERY = 64

/** Runs of all sandboxes: started here, kept in the journal, followed from it. */
export class RunService implements Runs, Disposable {
  readonly #options: RunServiceOptions
  readonly #live = new Map<string, LiveRun>()
  #ended = 0
  #isClosed = false

  constructor(options: RunServiceOptions) {
    this.#options = options
  }

  /** Nothing more is written: the runs go on in their sandboxes, and the next server takes them up. */
  [Symbol.dispose](): void {
    this.#isClosed = true
    for (const run of this.#live.values()) run.release()
  }

  /** How many are under way. */
  get liveCount(): number {
    return this.#live.size
  }

  get listener(): LifecycleListener {
    const { journal, find } = this.#options
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
        this.#orLater(() => journal.deleteOf(id))
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

  /** Entries of sandboxes that are no more. */
  collect(): void {
    const { journal, find } = this.#options
    this.#orLater(() => {
      for (const id of journal.sandboxIds()) if (find(id) === undefined) journal.deleteOf(id)
    })
  }

  /** What the journal gets rid of sooner or later. A disk too full for it must not undo what has happened already. */
  #orLater(tidy: () => void): void {
    try {
      tidy()
    } catch (error) {
      this.#options.log.warn({ err: error }, 'the journal of runs was not tidied')
    }
  }

  async start(sandbox: Sandbox, request: StartRunRequest): Promise<Run> {
    const { journal, now } = this.#options
    const { idempotencyKey, ...asked } = request
    const requestHash = idempotencyKey === undefined ? undefined : hashOf(asked)
    if (idempotencyKey !== undefined) {
      const seen = journal.byKey(sandbox.id, idempotencyKey)
      if (seen !== undefined) {
        if (seen.requestHash !== requestHash)
          throw new DormouseError('idempotency_mismatch', 'This idempotencyKey was used for another request.')
        await this.#live.get(keyOf(seen))?.begun()
        return this.#run(seen)
      }
    }
    const runId = newRunId()
    const row = journal.add({
      sandboxId: sandbox.id,
      runId,
      context: asked.context ?? 'default',
      language: asked.language,
      idempotencyKey,
      requestHash,
      startedAt: now(),
    })
    const start: StartRun = {
      code: asked.code,
      language: asked.language,
      ...(asked.context !== undefined && { context: asked.context }),
      ...(asked.timeoutMs !== undefined && { timeoutMs: asked.timeoutMs }),
    }
    const live = this.#follow(sandbox as LiveSandbox, row, start)
    await live.begun()
    return this.#run(row, live)
  }

  get(sandbox: Sandbox, runId: string): Run {
    return this.#run(this.#row(sandbox.id, runId))
  }

  list(sandbox: Sandbox, query: { limit: number; cursor?: string }): Page<RunView> {
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
      if (!this.#live.has(keyOf(row))) this.#follow(sandbox, row)
    }
  }

  #follow(sandbox: LiveSandbox, row: RunRow, request?: StartRun): LiveRun {
    const { journal, now, log } = this.#options
    const run = new LiveRun({ journal, sandbox, row, now, log, ...(request && { request }) })
    this.#live.set(keyOf(row), run)
    const done = () => {
      this.#live.delete(keyOf(row))
      this.#prune(row.sandboxId)
    }
    run.over.then(done, done)
    return run
  }

  #of(id: SandboxId): LiveRun[] {
    return [...this.#live.values()].filter(({ row }) => row.sandboxId === id)
  }

  #prune(sandboxId: SandboxId): void {
    this.#ended += 1
    if (this.#ended % PRUNE_EVERY !== 0) return
    const { journal, keepRuns, keepMs, now } = this.#options
    this.#orLater(() => journal.prune(sandboxId, { keep: keepRuns, before: now() - keepMs }))
  }

  /** `started`: the caller has just begun it. */
  #run(row: RunRow, started?: LiveRun): Run {
    return {
      runId: row.runId as RunId,
      view: () => viewOf(this.#options.journal.get(row.sandboxId, row.runId) ?? row),
      events: (options) => this.#events(row, options, started),
      result: (signal) => this.#result(row, signal, started),
    }
  }

  async *#events(
    row: RunRow,
    {
      after = -1,
      follow = true,
      signal,
    }: { after?: number; follow?: boolean; signal?: AbortSignal | undefined } = {},
    started?: LiveRun,
  ): AsyncGenerator<RunEvent> {
    const { journal } = this.#options
    let seq = after
    for (;;) {
      const live = this.#live.get(keyOf(row))
      // Asked for before the journal is read: what comes in between is not missed.
      const news = live?.news()
      const page = (live ?? started)?.recent(seq) ?? journal.page(row.id, seq)
      for (const event of page) {
        seq = event.seq
        yield event
        if (event.type === 'exit') return
      }
      if (signal?.aborted || !follow) return
      if (page.length > 0) continue
      if (live !== undefined && news !== undefined) {
        await orAborted(news, signal)
        // Said at every attempt to write: whoever comes anew waits for the next one.
        if (live.trouble !== undefined && signal?.aborted !== true) throw live.trouble
        if (live.isOver) await live.over
      } else if (isAtRest(journal, row)) return
      else await orAborted(sleepUntilTakenUp(), signal)
    }
  }

  async #result(row: RunRow, signal?: AbortSignal, started?: LiveRun): Promise<RunResult> {
    const collector = new RunCollector(row.runId)
    let hasEnded = false
    for await (const event of this.#events(row, { signal }, started)) {
      collector.add(event)
      hasEnded ||= event.type === 'exit'
    }
    if (hasEnded) return collector.result()
    if (this.#options.journal.get(row.sandboxId, row.runId) === undefined)
      throw new DormouseError('not_found', 'The sandbox was deleted in the middle of the run.')
    throw new DormouseError('cancelled', 'The caller gave up before the end of the run.')
  }
}

/** A run of a sleeping sandbox is neither over nor under way. It is looked at again this often. */
const SLEEPING_MS = 250

function sleepUntilTakenUp(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, SLEEPING_MS).unref())
}

function isAtRest(journal: RunJournal, { sandboxId, runId }: RunRow): boolean {
  const row = journal.get(sandboxId, runId)
  return row === undefined || row.state === 'finished' || row.state === 'lost'
}

async function orAborted(work: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return work
  await new Promise<void>((resolve) => {
    const stop = () => resolve()
    signal.addEventListener('abort', stop, { once: true })
    work.finally(() => {
      signal.removeEventListener('abort', stop)
      resolve()
    })
  })
}

function viewOf(row: RunRow): RunView {
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
