import type { WhyAnswer } from '@dormouse/contracts/http'
import { Moment } from '../clock/moment.ts'
import type { ServerClock } from '../clock/server-clock.ts'

type WorkAnswer = WhyAnswer['work'][number]
type Kind = WorkAnswer['kind']

interface Entry {
  readonly kind: Kind
  readonly what: string
  readonly since: number
}

/** The work that keeps one sandbox awake, and when it was last active. */
export class ActiveWork {
  readonly #entries = new Set<Entry>()
  readonly #clock: ServerClock
  #lastActive: Moment

  constructor(lastActive: Moment, clock: ServerClock) {
    this.#lastActive = lastActive
    this.#clock = clock
  }

  get isBusy(): boolean {
    return this.#entries.size > 0
  }

  /** Now, as long as there is work. */
  get lastActiveAt(): number {
    return this.isBusy ? this.#clock.wallMs() : this.#lastActive.wallMs
  }

  get idleMs(): number {
    return this.isBusy ? 0 : this.#lastActive.elapsedMs
  }

  /** Work that lasts until it is disposed. */
  begin(kind: Kind, what: string): Disposable {
    const entry = { kind, what, since: this.#clock.wallMs() }
    this.#entries.add(entry)
    return {
      [Symbol.dispose]: () => {
        if (this.#entries.delete(entry)) this.touch()
      },
    }
  }

  /** Work that lasts until it is disposed or `untilMs` has passed. */
  hold(kind: 'hold' | 'connection', what: string, untilMs: number | undefined): Disposable {
    const work = this.begin(kind, what)
    if (untilMs === undefined) return work
    const timer = setTimeout(() => work[Symbol.dispose](), untilMs).unref()
    return {
      [Symbol.dispose]: () => {
        clearTimeout(timer)
        work[Symbol.dispose]()
      },
    }
  }

  /** The sandbox was active just now. */
  touch(): void {
    this.#lastActive = Moment.now(this.#clock)
  }

  list(): WorkAnswer[] {
    return [...this.#entries].map(({ kind, what, since }) => ({
      kind,
      what,
      since: new Date(since).toISOString(),
    }))
  }
}
