import { onAbort } from '@dormouse/async'
import type { SandboxId, ServiceId } from '@dormouse/contracts'
import type { ServiceLogLineAnswer } from '@dormouse/contracts/http'
import type { Log } from '../log.ts'
import type { SharedDatabase } from '../store/database.ts'

/** Of one service; the oldest go first. */
const LINES_KEPT = 50_000
const LINE_MAX_CHARACTERS = 4_000
/** Lines are written together. */
const FLUSH_MS = 50
/** Lines that wait to be written, of one service. A program that prints faster loses the rest. */
const WAITING_MAX = 20_000
const PAGE_LINES = 500

type Stream = ServiceLogLineAnswer['stream']

export interface NewLine {
  readonly sandboxId: SandboxId
  readonly version: number
  readonly stream: Stream
  readonly text: string
  /** The process, and the event of it that the line came with. */
  readonly processId: string
  readonly eventSeq: number
}

interface StoredLine {
  seq: number
  at: number
  sandbox_id: SandboxId
  version: number
  stream: Stream
  text: string
}

export interface ReadLines {
  readonly after?: number | undefined
  readonly sinceMs?: number | undefined
  readonly search?: string | undefined
  readonly tail: number
  readonly follow: boolean
  readonly signal: AbortSignal
}

export interface ServiceLogOptions {
  readonly db: SharedDatabase
  readonly id: ServiceId
  /** Lines that are not here, on another host, have lower numbers. */
  readonly firstSeq: number
  readonly nowMs: () => number
  readonly log: Log
}

/** What the programs of one service print, in the order in which it arrived. Bounded. */
export class ServiceLog implements Disposable {
  readonly #db: SharedDatabase
  readonly #id: ServiceId
  readonly #nowMs: () => number
  readonly #log: Log
  #seq: number
  #waiting: (NewLine & { readonly at: number })[] = []
  #dropped = 0
  #timer: NodeJS.Timeout | undefined
  #readers: (() => void)[] = []

  constructor({ db, id, firstSeq, nowMs, log }: ServiceLogOptions) {
    this.#db = db
    this.#id = id
    this.#nowMs = nowMs
    this.#log = log
    this.#seq =
      db
        .prepare<[string], { seq: number | null }>(
          'SELECT max(seq) AS seq FROM service_log WHERE service_id = ?',
        )
        .get(id)?.seq ?? -1
    this.#seq = Math.max(this.#seq, firstSeq - 1)
  }

  /** The last event of a process of a replica that is in the log. */
  lastEventOf(sandboxId: SandboxId, processId: string): number | undefined {
    this.flush()
    return (
      this.#db
        .prepare<[string, string, string], { seq: number | null }>(
          'SELECT max(event_seq) AS seq FROM service_log WHERE service_id = ? AND sandbox_id = ? AND process_id = ?',
        )
        .get(this.#id, sandboxId, processId)?.seq ?? undefined
    )
  }

  add(line: NewLine): void {
    if (this.#waiting.length >= WAITING_MAX) {
      this.#dropped += 1
      return
    }
    this.#waiting.push({ ...line, text: line.text.slice(0, LINE_MAX_CHARACTERS), at: this.#nowMs() })
    this.#timer ??= setTimeout(() => this.flush(), FLUSH_MS).unref()
  }

  /** Writes what waits. A full disk costs lines, not the service. */
  flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const lines = this.#waiting
    if (lines.length === 0) return
    this.#waiting = []
    const last = lines.at(-1) as (typeof lines)[number]
    if (this.#dropped > 0)
      lines.push({
        ...last,
        stream: 'system',
        text: `${this.#dropped} lines were dropped: they came too fast.`,
      })
    this.#dropped = 0
    try {
      this.#db.transaction(() => {
        for (const line of lines) this.#insert(line)
        this.#db
          .prepare<[string, number]>('DELETE FROM service_log WHERE service_id = ? AND seq <= ?')
          .run(this.#id, this.#seq - LINES_KEPT)
      })
    } catch (error) {
      this.#log.warn({ service: this.#id, err: error }, 'lines of a service could not be recorded')
    }
    for (const wake of this.#readers.splice(0)) wake()
  }

  #insert({ at, sandboxId, version, stream, text, processId, eventSeq }: NewLine & { at: number }): void {
    this.#seq += 1
    this.#db
      .prepare<[string, number, number, string, number, string, string, string, number]>(
        `INSERT INTO service_log (service_id, seq, at, sandbox_id, version, stream, text, process_id, event_seq)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(this.#id, this.#seq, at, sandboxId, version, stream, text, processId, eventSeq)
  }

  /** Yields the newest `tail` lines that match, then, with `follow`, new ones as they come. */
  async *read({
    after,
    sinceMs,
    search,
    tail,
    follow,
    signal,
  }: ReadLines): AsyncGenerator<ServiceLogLineAnswer> {
    this.flush()
    let seen = Math.max(after ?? -1, this.#firstOf({ after, sinceMs, search, tail }) - 1)
    for (;;) {
      const page = this.#page(seen, { sinceMs, search })
      for (const line of page.lines) yield view(line)
      seen = page.seen
      if (page.isFull) continue
      if (!follow || signal.aborted) return
      await this.#next(signal)
    }
  }

  /** Deletes all lines. */
  clear(): void {
    this.#waiting = []
    clearServiceLog(this.#db, this.#id)
  }

  [Symbol.dispose](): void {
    this.flush()
  }

  /** The first of the newest `tail` lines that match. */
  #firstOf({ after, sinceMs, search, tail }: Omit<ReadLines, 'follow' | 'signal'>): number {
    if (tail === 0) return this.#seq + 1
    const row = this.#db
      .prepare<[string, number, number, string, string, number], { seq: number }>(
        `SELECT seq FROM service_log WHERE service_id = ? AND seq > ? AND at >= ? AND (? = '' OR instr(text, ?) > 0)
         ORDER BY seq DESC LIMIT 1 OFFSET ?`,
      )
      .get(this.#id, after ?? -1, sinceMs ?? 0, search ?? '', search ?? '', tail - 1)
    return row?.seq ?? 0
  }

  #page(seen: number, { sinceMs, search }: Pick<ReadLines, 'sinceMs' | 'search'>) {
    const lines = this.#db
      .prepare<[string, number, number, string, string, number], StoredLine>(
        `SELECT seq, at, sandbox_id, version, stream, text FROM service_log
         WHERE service_id = ? AND seq > ? AND at >= ? AND (? = '' OR instr(text, ?) > 0) ORDER BY seq LIMIT ?`,
      )
      .all(this.#id, seen, sinceMs ?? 0, search ?? '', search ?? '', PAGE_LINES)
    const isFull = lines.length === PAGE_LINES
    return { lines, isFull, seen: isFull ? (lines.at(-1)?.seq ?? seen) : Math.max(seen, this.#seq) }
  }

  #next(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const watch = onAbort(signal, resolve)
      this.#readers.push(() => {
        watch[Symbol.dispose]()
        resolve()
      })
    })
  }
}

/** Deletes all lines of a service. */
export function clearServiceLog(db: SharedDatabase, id: ServiceId): void {
  db.write(() => db.prepare<[string]>('DELETE FROM service_log WHERE service_id = ?').run(id))
}

function view({ sandbox_id: sandboxId, at, ...line }: StoredLine): ServiceLogLineAnswer {
  return { ...line, sandboxId, at: new Date(at).toISOString() }
}
