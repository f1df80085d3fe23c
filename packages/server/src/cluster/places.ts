import type { Database } from '../store/database.ts'

/** What lives on one host, and is reached from any. */
export type PlaceKind = 'service'

export interface Placed {
  readonly id: string
  readonly owner: string
  readonly name: string | undefined
}

interface Stored {
  id: string
  owner: string
  name: string | null
  host: string
}

const LOOK_MS = 500

/** Which host has which service. Each host writes its own rows; the table is shared. */
export class Places implements Disposable {
  readonly #db: Database
  readonly #hostId: string
  readonly #here: Readonly<Record<PlaceKind, () => readonly Placed[]>>
  readonly #timer: NodeJS.Timeout

  constructor(options: {
    db: Database
    hostId: string
    here: Readonly<Record<PlaceKind, () => readonly Placed[]>>
  }) {
    this.#db = options.db
    this.#hostId = options.hostId
    this.#here = options.here
    this.#timer = setInterval(() => this.update(), LOOK_MS).unref()
    this.update()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  /** The host that has it, unless that is this one. `owner` decides what a name means. */
  find(kind: PlaceKind, ref: string, owner: string | undefined): string | undefined {
    const found = this.#db
      .prepare<[string, string, string, string | null], Stored>(
        'SELECT * FROM places WHERE kind = ? AND (id = ? OR (name = ? AND owner = ?))',
      )
      .all(kind, ref, ref, owner ?? null)
    const other = found.find(({ host }) => host !== this.#hostId)
    return found.some(({ host }) => host === this.#hostId) ? undefined : other?.host
  }

  /** Writes what this host has now. */
  update(): void {
    for (const kind of ['service'] as const) {
      const here = new Map(this.#here[kind]().map((one) => [one.id, one]))
      const known = this.#db
        .prepare<[string, string], Stored>('SELECT * FROM places WHERE kind = ? AND host = ?')
        .all(kind, this.#hostId)
      const gone = known.filter(({ id }) => !here.has(id))
      for (const { id } of known) here.delete(id)
      if (gone.length === 0 && here.size === 0) continue
      this.#db.transaction(() => {
        for (const { id } of gone)
          this.#db.prepare<[string, string]>('DELETE FROM places WHERE kind = ? AND id = ?').run(kind, id)
        for (const { id, owner, name } of here.values())
          this.#db
            .prepare<[string, string, string, string | null, string]>(
              'INSERT OR REPLACE INTO places (kind, id, owner, name, host) VALUES (?, ?, ?, ?, ?)',
            )
            .run(kind, id, owner, name ?? null, this.#hostId)
      })
    }
  }
}
