import type { WhyAnswer } from '@dormouse/contracts/http'
import type { BackgroundProcess } from '@dormouse/engine'
import { Moment } from '../clock/moment.ts'
import type { ServerClock } from '../clock/server-clock.ts'
import { CallWatch } from './call-watch.ts'
import type { WakeCause } from './use-options.ts'

type WorkAnswer = WhyAnswer['work'][number]
type Kind = WorkAnswer['kind']
/** `bytes`: of a connection that outlives sleeps. A standby that is asked for does not wait until it is silent. */
export type HoldKind = 'hold' | 'connection' | 'bytes'

interface Entry {
  readonly kind: Kind
  readonly what: string
  readonly since: number
}

/** Of a command that `why` shows. */
const COMMAND_MAX_CHARACTERS = 100

export interface ActiveWorkOptions {
  readonly lastActive: Moment
  readonly clock: ServerClock
  /** How long background processes count as work after the last call or run. 0: never. */
  readonly maxBackgroundMs: () => number
}

/** The work that keeps one sandbox awake, and when it was last active. */
export class ActiveWork {
  readonly #entries = new Set<Entry>()
  readonly #options: ActiveWorkOptions
  #background: readonly Entry[] = []
  #lastActive: Moment
  /** The end of the last work that a caller asked for. The agent, which may be hostile, cannot change it. */
  #lastCalled: Moment
  #timerWakes = 0
  readonly #watches = new Set<CallWatch>()

  constructor(options: ActiveWorkOptions) {
    this.#options = options
    this.#lastActive = options.lastActive
    this.#lastCalled = options.lastActive
  }

  get isBusy(): boolean {
    return this.#entries.size > 0 || this.hasBackground
  }

  /** Whether a caller is connected to something inside. */
  get hasConnection(): boolean {
    return [...this.#entries].some(({ kind }) => kind === 'connection')
  }

  /** Whether background processes would keep the sandbox awake. */
  get countsBackground(): boolean {
    return this.uncalledMs < this.#options.maxBackgroundMs()
  }

  /** For how long no work that a caller asked for has been active. */
  get uncalledMs(): number {
    const isCalled = [...this.#entries].some(({ kind }) => kind !== 'cpu')
    return isCalled ? 0 : this.#lastCalled.elapsedMs
  }

  /** Whether background processes are known that keep the sandbox awake. */
  get hasBackground(): boolean {
    return this.#background.length > 0 && this.countsBackground
  }

  /** Now, as long as there is work. */
  get lastActiveAt(): number {
    return this.isBusy ? this.#options.clock.wallMs() : this.#lastActive.wallMs
  }

  get idleMs(): number {
    return this.isBusy ? 0 : this.#lastActive.elapsedMs
  }

  /** Work that lasts until it is disposed. */
  begin(kind: Kind, what: string, { isAwaited = true } = {}): Disposable {
    const entry = { kind, what, since: this.#options.clock.wallMs() }
    this.#entries.add(entry)
    const watches = kind === 'cpu' ? [] : [...this.#watches]
    for (const watch of watches) watch.begin(entry, { isAwaited })
    return {
      [Symbol.dispose]: () => {
        if (!this.#entries.delete(entry)) return
        for (const watch of watches) watch.end(entry)
        if (kind === 'cpu') this.#lastActive = Moment.now(this.#options.clock)
        else this.touch()
      },
    }
  }

  /** Hears of calls that begin from now on, until it is disposed. */
  watch(): CallWatch {
    const watch = new CallWatch((disposed) => this.#watches.delete(disposed))
    this.#watches.add(watch)
    return watch
  }

  /** A caller needs the sandbox awake: one that is falling asleep does not. */
  interruptSleep(): void {
    for (const watch of this.#watches) watch.interrupt()
  }

  /** Work that lasts until it is disposed or `untilMs` has passed. */
  hold(kind: HoldKind, what: string, untilMs: number | undefined): Disposable {
    const isBytes = kind === 'bytes'
    const work = this.begin(isBytes ? 'connection' : kind, what, { isAwaited: !isBytes })
    if (untilMs === undefined) return work
    const timer = setTimeout(() => work[Symbol.dispose](), untilMs).unref()
    return {
      [Symbol.dispose]: () => {
        clearTimeout(timer)
        work[Symbol.dispose]()
      },
    }
  }

  /** Replaces the background processes. */
  setBackground(processes: readonly BackgroundProcess[]): void {
    const { clock } = this.#options
    const wasBusy = this.hasBackground
    this.#background = processes.map(({ pid, command }) => {
      const what = `process ${pid} (${shorten(command)})`
      return (
        this.#background.find((known) => known.what === what) ?? {
          kind: 'process',
          what,
          since: clock.wallMs(),
        }
      )
    })
    if (wasBusy && !this.hasBackground) this.#lastActive = Moment.now(clock)
  }

  /** How often a timer woke the sandbox since a caller last used it. */
  get timerWakes(): number {
    return this.#timerWakes
  }

  /** The sandbox woke. A timer is no caller: code inside decides when it is due. */
  woke(cause: WakeCause): void {
    const timerWakes = cause === 'timer' ? this.#timerWakes + 1 : 0
    if (timerWakes === 0) this.touch()
    this.#timerWakes = timerWakes
    this.#lastActive = Moment.now(this.#options.clock)
  }

  /** A caller used the sandbox just now. */
  touch(): void {
    this.#timerWakes = 0
    this.#lastActive = Moment.now(this.#options.clock)
    this.#lastCalled = this.#lastActive
  }

  list(): WorkAnswer[] {
    const entries = [...this.#entries, ...(this.hasBackground ? this.#background : [])]
    return entries.map(({ kind, what, since }) => ({ kind, what, since: new Date(since).toISOString() }))
  }
}

function shorten(command: string): string {
  const line = command.replaceAll(/[\s\p{Cc}]+/gu, ' ')
  return line.length <= COMMAND_MAX_CHARACTERS ? line : `${line.slice(0, COMMAND_MAX_CHARACTERS - 1)}…`
}
