import { closeSync, constants, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs'

export interface RunLogOptions<Change> {
  readonly path: string
  /** The number of the last change that was applied. */
  readonly applied: number
  /** Applies all of them and records the number of the last one, or throws and does nothing. */
  readonly apply: (changes: readonly Change[], last: number) => void
  /** Whether the disk has room for what is applied later. */
  readonly hasRoom: () => boolean
}

/** Changes are applied when they are this old, or this many: a few at once do not hold up the event loop. */
const APPLY_MS = 100
const APPLY_COUNT = 32
/** They are applied at once when there are this many, or one is this long. */
const WAITING_MAX = 4 * APPLY_COUNT
const CHANGE_MAX_BYTES = 16 * 1024
/** After a failure. */
const RETRY_MS = 1_000

/**
 * A file in front of a database: appending a short change takes a fraction of a commit. Changes that wait there are
 * applied in one transaction. They survive `kill -9`, and are applied once: each has a number, and the database records
 * the last one that it has.
 *
 * The file is written from its start again after each transaction, so what follows the newest change is older. A line
 * counts if it is whole and has the next number; at most the last ones are missing.
 */
export class RunLog<Change> implements Disposable {
  readonly #options: RunLogOptions<Change>
  readonly #fd: number
  #last: number
  #at = 0
  #waiting: Change[] = []
  #timer: NodeJS.Timeout | undefined
  #immediate: NodeJS.Immediate | undefined
  #isClosed = false

  /** Applies what an earlier server left. */
  constructor(options: RunLogOptions<Change>) {
    this.#options = options
    this.#last = options.applied
    // Made if it is missing, but not emptied; and not for appending, which would ignore positions.
    this.#fd = openSync(options.path, constants.O_RDWR | constants.O_CREAT, 0o600)
    this.#read()
    ftruncateSync(this.#fd, this.#at)
    this.#flushLater()
  }

  /** How many changes wait. */
  get waitingCount(): number {
    return this.#waiting.length
  }

  /**
   * False: the change is not in the log, and nothing waits, so the caller applies it. Throws what `apply` throws.
   * `bytes`: about how long it is.
   */
  append(change: Change, bytes: number): boolean {
    const isShort = bytes <= CHANGE_MAX_BYTES && this.#waiting.length < WAITING_MAX
    if (this.#isClosed || !isShort || !this.#options.hasRoom() || !this.#write(change)) {
      this.flush()
      return false
    }
    this.#last += 1
    this.#waiting.push(change)
    this.#timer ??= setTimeout(this.#flushLater, APPLY_MS).unref()
    // After what waits for this change.
    if (this.#waiting.length >= APPLY_COUNT) this.#immediate ??= setImmediate(this.#flushLater)
    return true
  }

  /** Applies what waits. */
  flush(): void {
    if (this.#waiting.length === 0) return
    this.#options.apply(this.#waiting, this.#last)
    this.#waiting = []
    this.#at = 0
    this.#stopTimers()
  }

  /** What cannot be applied is left to the next server. */
  [Symbol.dispose](): void {
    try {
      this.flush()
    } catch {
      // A full disk.
    }
    this.#stopTimers()
    if (!this.#isClosed) closeSync(this.#fd)
    this.#isClosed = true
  }

  readonly #flushLater = () => {
    this.#stopTimers()
    try {
      this.flush()
    } catch {
      // Probably a full disk: calls that need the database report it.
      this.#timer = setTimeout(this.#flushLater, RETRY_MS).unref()
    }
  }

  #stopTimers(): void {
    clearTimeout(this.#timer)
    clearImmediate(this.#immediate)
    this.#timer = this.#immediate = undefined
  }

  /** The number on both sides shows that a line is whole: `kill -9` may end a write in its middle. */
  #write(change: Change): boolean {
    const number = this.#last + 1
    const line = Buffer.from(`[${number},${JSON.stringify(change)},${number}]\n`)
    try {
      if (writeSync(this.#fd, line, 0, line.length, this.#at) < line.length) return false
    } catch {
      // The database is written instead, which reports what is wrong with the disk.
      return false
    }
    this.#at += line.length
    return true
  }

  #read(): void {
    for (const line of readFileSync(this.#fd, 'utf8').split('\n')) {
      const [number, change, again] = parsed(line)
      if (typeof number !== 'number' || number !== again) return
      // After a power cut the database may lack changes from before.
      if (number > this.#last + 1) return
      this.#at += Buffer.byteLength(line) + 1
      if (number <= this.#last) continue
      this.#last = number
      this.#waiting.push(change as Change)
    }
  }
}

function parsed(line: string): readonly unknown[] {
  try {
    const value: unknown = JSON.parse(line)
    return Array.isArray(value) ? value : []
  } catch {
    return []
  }
}
