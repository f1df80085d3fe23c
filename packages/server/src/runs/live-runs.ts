import type { SandboxId } from '@dormouse/contracts'
import type { ServerClock } from '../clock/server-clock.ts'
import type { Log } from '../log.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { JournalSpace } from './journal-space.ts'
import { LiveRun, type LiveRunParts } from './live-run.ts'
import { OutputThrottle } from './output-throttle.ts'
import type { RunJournal } from './run-journal.ts'
import type { RunRow } from './run-rows.ts'
import { RunSignals } from './run-signals.ts'

export interface RunDependencies {
  readonly journal: RunJournal
  readonly space: JournalSpace
  readonly findSandbox: (id: SandboxId) => Pick<Sandbox, 'attachRun' | 'isDeleted' | 'row'> | undefined
  readonly clock: Pick<ServerClock, 'wallMs'>
  readonly log: Log
  /** Called when a run starts, and when it is over. */
  readonly onRun?: (type: 'run.started' | 'run.finished', row: RunRow) => void
}

/** The runs of all sandboxes that this server follows. */
export class LiveRuns implements Disposable {
  readonly deps: RunDependencies
  readonly #runs = new Map<string, LiveRun>()
  readonly #signals = new RunSignals()
  readonly #throttle = new OutputThrottle()
  #isClosed = false

  constructor(deps: RunDependencies) {
    this.deps = deps
  }

  /** Writes nothing more. The runs continue in their sandboxes, and the next server follows them. */
  [Symbol.dispose](): void {
    this.#isClosed = true
    for (const run of this.#runs.values()) run.release()
    this.#signals.notifyAll()
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  get count(): number {
    return this.#runs.size
  }

  find(row: RunRow): LiveRun | undefined {
    return this.#runs.get(keyOf(row))
  }

  of(id: SandboxId): LiveRun[] {
    return [...this.#runs.values()].filter(({ row }) => row.sandboxId === id)
  }

  /** Starts a run, or continues to follow one. */
  follow(parts: Pick<LiveRunParts, 'sandbox' | 'row' | 'request' | 'isResumed'>): LiveRun {
    const { journal, space, clock, log, findSandbox } = this.deps
    const { row } = parts
    const key = keyOf(row)
    const run = new LiveRun({ ...parts, journal, space, throttle: this.#throttle, clock, log })
    this.#runs.set(key, run)
    this.#signals.notify(key)
    if (parts.isResumed !== true) this.deps.onRun?.('run.started', row)
    const done = () => {
      this.#runs.delete(key)
      if (!this.#isClosed) this.deps.onRun?.('run.finished', row)
      if (!this.#isClosed && findSandbox(row.sandboxId) !== undefined) space.ended(row.sandboxId)
    }
    run.over.then(done, done)
    return run
  }

  /** Resolves when `notify` is called for the run, or this server follows it again. */
  nextSignal(row: RunRow, signal: AbortSignal | undefined): Promise<void> {
    return this.#signals.wait(keyOf(row), signal)
  }

  notify(row: RunRow): void {
    this.#signals.notify(keyOf(row))
  }

  notifyAllOf(id: SandboxId): void {
    this.#signals.notifyAll(keyPrefix(id))
  }
}

function keyOf({ sandboxId, runId }: RunRow): string {
  return `${keyPrefix(sandboxId)}${runId}`
}

function keyPrefix(id: SandboxId): string {
  return `${id} `
}
