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
  readonly #now: () => number
  #lastActiveAt: number

  constructor(lastActiveAt: number, now: () => number) {
    this.#lastActiveAt = lastActiveAt
    this.#now = now
  }

  get isBusy(): boolean {
    return this.#entries.size > 0
  }

  /** Now, as long as there is work. */
  get lastActiveAt(): number {
    return this.isBusy ? this.#now() : this.#lastActiveAt
  }

  begin(kind: Kind, what: string): Disposable {
    const entry = { kind, what, since: this.#now() }
    this.#entries.add(entry)
    return {
      [Symbol.dispose]: () => {
        if (this.#entries.delete(entry)) this.touch()
      },
    }
  }

  /** Something happened just now. */
  touch(): void {
    this.#lastActiveAt = this.#now()
  }

  list(): WorkView[] {
    return [...this.#entries].map(({ kind, what, since }) => ({
      kind,
      what,
      since: new Date(since).toISOString(),
    }))
  }
}
