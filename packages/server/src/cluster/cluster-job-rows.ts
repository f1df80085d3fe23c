import type { JobMessage } from '@dormouse/cluster'
import type { Database } from '../store/database.ts'

/** A publisher that has not sent all pieces of a command by then never will. */
const PIECES_KEPT_MS = 3_600_000

/** How much of the log of the cluster's jobs this host has applied. */
export class ClusterJobRows {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  get place(): { stream: string; seq: number } {
    const found = this.#db.prepare<[], { stream: string; seq: number }>('SELECT * FROM job_log').get()
    return found ?? { stream: '', seq: 0 }
  }

  set place({ stream, seq }: { stream: string; seq: number }) {
    this.#db.transactionWithoutSync(() => {
      const { changes } = this.#db
        .prepare<[string, number]>('UPDATE job_log SET stream = ?, seq = ?')
        .run(stream, seq)
      if (changes === 0)
        this.#db.prepare<[string, number]>('INSERT INTO job_log (stream, seq) VALUES (?, ?)').run(stream, seq)
    })
  }

  /** `work` and the place behind it are recorded together. */
  apply<Value>(
    place: { stream: string; seq: number },
    work: () => Value extends PromiseLike<unknown> ? never : Value,
  ): Value {
    return this.#db.transactionWithoutSync(() => {
      this.place = place
      return work()
    })
  }

  /** The whole text of the command when this was its last piece. */
  assemble({ command, piece, pieces, content, atMs }: JobMessage): string | undefined {
    if (pieces === 1) return decode([content])
    this.#db.prepare<[number]>('DELETE FROM job_log_pieces WHERE at < ?').run(atMs - PIECES_KEPT_MS)
    this.#db
      .prepare<[string, number, number, string]>('INSERT OR IGNORE INTO job_log_pieces VALUES (?, ?, ?, ?)')
      .run(command, piece, atMs, content)
    const found = this.#db
      .prepare<[string], { content: string }>(
        'SELECT content FROM job_log_pieces WHERE command = ? ORDER BY piece',
      )
      .all(command)
    if (found.length < pieces) return undefined
    this.#db.prepare<[string]>('DELETE FROM job_log_pieces WHERE command = ?').run(command)
    return decode(found.map((one) => one.content))
  }
}

/** A piece may end in the middle of a character. */
function decode(pieces: readonly string[]): string {
  return Buffer.concat(pieces.map((piece) => Buffer.from(piece, 'base64'))).toString()
}
