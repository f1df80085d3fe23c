import { Moment } from '../clock/moment.ts'
import type { ServerClock } from '../clock/server-clock.ts'
import type { WorkView } from './service.ts'

type Kind = WorkView['kind']

interface Entry {
  readonly kind: Kind
  readonly what: string
  readonly since: number
}

/** What keeps one sandbox awake, and when there was last something. */
export class WorkBook {
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

  /** Since there was last something. */
  get idleMs(): number {
    return this.isBusy ? 0 : this.#lastActive.elapsedMs
  }

  begin(kind: Kind, what: string): Disposable {
    const entry = { kind, what, since: this.#clock.wallMs() }
    this.#entries.add(entry)
    return {
      [Symbol.dispose]: () => {
        if (this.#entries.delete(entry)) this.touch()
      },
    }
  }

  /** Something happened just now. */
  touch(): void {
    this.#lastActive = Moment.now(this.#clock)
  }

  list(): WorkView[] {
    return [...this.#entries].map(({ kind, what, since }) => ({
      kind,
      what,
      since: new Date(since).toISOString(),
    }))
  }
}
