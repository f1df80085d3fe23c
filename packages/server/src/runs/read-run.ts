import { setImmediate as nextTurn } from 'node:timers/promises'
import { onAbort } from '@dormouse/async'
import { DormouseError, type RunEvent, type RunResult } from '@dormouse/contracts'
import { RunCollector } from '@dormouse/guest'
import { unseenPart } from './bound-event.ts'
import type { LiveRun } from './live-run.ts'
import type { LiveRuns } from './live-runs.ts'
import { RunDeadline, unfinished } from './run-deadline.ts'
import type { RunJournal } from './run-journal.ts'
import type { RunRow } from './run-rows.ts'
import type { ReadEvents } from './runs.ts'

export interface RunToRead {
  readonly row: RunRow
  /** The reader has just started it. */
  readonly started?: LiveRun | undefined
  /** The reader does not wait much longer than this. */
  readonly timeoutMs?: number | undefined
}

/**
 * Events of a run from memory or the journal, then new ones as they come, until `exit`. Waits for notifications and
 * never polls: `LiveRun` notifies of new events, `LiveRuns` of runs that are followed again, lost or deleted.
 */
export async function* readEvents(
  runs: LiveRuns,
  { row, started, timeoutMs }: RunToRead,
  { after = -1, follow = true, signal }: ReadEvents = {},
): AsyncGenerator<RunEvent> {
  const { journal } = runs.deps
  using deadline = timeoutMs === undefined ? undefined : new RunDeadline(timeoutMs)
  let seq = after
  for (;;) {
    const live = runs.find(row)
    // Before the journal is read: a change between the two is not missed.
    const change = live?.nextChange()
    const recent = (live ?? started)?.recent(seq)
    const page = recent === undefined ? journal.page(row.id, seq) : { events: recent, isFull: false }
    for (const event of page.events) {
      const unseen = unseenPart(event, seq)
      seq = event.seq
      deadline?.begin()
      yield unseen
      if (event.type === 'exit') return
    }
    // A long journal is read in pages, and other work gets its turn between them.
    if (page.isFull) await nextTurn()
    if (signal?.aborted) return
    if (page.events.length > 0) continue
    if (!follow) return
    if (deadline?.hasPassed === true) throw unfinishedError(runs, row)
    if (deadline !== undefined && !isQueued(runs, row, live)) deadline.begin()
    if (live !== undefined && change !== undefined) {
      await settledOrAborted(change, signal, deadline)
      // Set anew by each failing write: a reader that comes later waits for the next one.
      if (live.trouble !== undefined && signal?.aborted !== true) throw live.trouble
      if (live.isOver) await live.over
    } else if (isDeleted(runs, row) || isOver(journal, row)) return
    else await settledOrAborted(runs.nextSignal(row, signal), signal, deadline)
  }
}

/** Collects the events of a run until its `exit`. */
export async function readResult(
  runs: LiveRuns,
  row: RunRow,
  events: AsyncIterable<RunEvent>,
): Promise<RunResult> {
  const collector = new RunCollector(row.runId)
  let hasEnded = false
  for await (const event of events) {
    collector.add(event)
    hasEnded ||= event.type === 'exit'
  }
  if (hasEnded) return collector.result()
  if (isDeleted(runs, row))
    throw new DormouseError('not_found', 'The sandbox was deleted in the middle of the run.')
  throw new DormouseError('cancelled', 'The caller gave up before the end of the run.')
}

/** The sandbox was deleted. Its events stay in the journal a little longer. */
function isDeleted({ deps }: LiveRuns, { sandboxId, runId }: RunRow): boolean {
  const sandbox = deps.findSandbox(sandboxId)
  return sandbox === undefined || sandbox.isDeleted || deps.journal.get(sandboxId, runId) === undefined
}

/** Its sandbox does not have it yet, or other runs of its context come first. */
function isQueued(runs: LiveRuns, row: RunRow, live: LiveRun | undefined): boolean {
  if (live === undefined) return false
  const isBehind = runs
    .of(row.sandboxId)
    .some((other) => other.row.context === row.context && other.row.id < row.id && !other.isOver)
  return !live.isSent || isBehind
}

function isOver(journal: RunJournal, { sandboxId, runId }: RunRow): boolean {
  const row = journal.get(sandboxId, runId)
  return row === undefined || row.state === 'finished' || row.state === 'lost'
}

function unfinishedError({ deps }: LiveRuns, row: RunRow): DormouseError {
  const { runId, sandboxId } = row
  const { state } = deps.journal.get(sandboxId, runId) ?? row
  return unfinished({ runId, state, sandboxState: deps.findSandbox(sandboxId)?.row.state ?? 'deleted' })
}

/** Resolves when `change` settles, the signal aborts, or the deadline has passed. */
async function settledOrAborted(
  change: Promise<void>,
  signal: AbortSignal | undefined,
  deadline: RunDeadline | undefined,
): Promise<void> {
  const work = deadline === undefined ? change : deadline.settledOrPassed(change)
  if (signal === undefined) return work
  await new Promise<void>((resolve) => {
    const listener = onAbort(signal, resolve)
    const done = () => {
      listener[Symbol.dispose]()
      resolve()
    }
    work.then(done, done)
  })
}
