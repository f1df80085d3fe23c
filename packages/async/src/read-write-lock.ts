import { abortError } from './abortable.ts'
import { onAbort } from './on-abort.ts'

interface Waiting {
  readonly isWriter: boolean
  readonly enter: () => void
}

/** A lock that is held. Releasing it twice does nothing. */
export interface Held extends Disposable {
  release(): void
}

/**
 * Many readers at once, or one writer alone. First come, first served: a writer waits for the readers before it, and
 * readers behind it wait for the writer.
 */
export class ReadWriteLock {
  readonly #makeAbortError: (signal: AbortSignal) => Error
  readonly #queue: Waiting[] = []
  #readers = 0
  #hasWriter = false

  constructor({ makeAbortError = abortError }: { makeAbortError?: (signal: AbortSignal) => Error } = {}) {
    this.#makeAbortError = makeAbortError
  }

  /** Neither held nor waited for. */
  get isFree(): boolean {
    return this.#readers === 0 && !this.#hasWriter && this.#queue.length === 0
  }

  /** A writer holds the lock or waits for it. */
  get isWriting(): boolean {
    return this.#hasWriter || this.#queue.some(({ isWriter }) => isWriter)
  }

  /** Returns the lock itself, not a promise, when it is free: the usual case skips the microtask queue. */
  read(signal?: AbortSignal): Held | Promise<Held> {
    if (!this.#hasWriter && this.#queue.length === 0) return this.#enterReader()
    return this.#wait(false, signal)
  }

  async write<Value>(work: () => Promise<Value>, signal?: AbortSignal): Promise<Value> {
    const held = this.isFree ? this.#enterWriter() : await this.#wait(true, signal)
    try {
      return await work()
    } finally {
      held.release()
    }
  }

  #wait(isWriter: boolean, signal: AbortSignal | undefined): Promise<Held> {
    if (signal?.aborted) return Promise.reject(this.#makeAbortError(signal))
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        isWriter,
        enter: () => {
          listener[Symbol.dispose]()
          resolve(isWriter ? this.#enterWriter() : this.#enterReader())
        },
      }
      this.#queue.push(waiting)
      const listener = onAbort(signal, () => {
        this.#queue.splice(this.#queue.indexOf(waiting), 1)
        if (signal !== undefined) reject(this.#makeAbortError(signal))
        this.#admitNext()
      })
    })
  }

  #enterReader(): Held {
    this.#readers += 1
    return this.#hold(() => {
      this.#readers -= 1
    })
  }

  #enterWriter(): Held {
    this.#hasWriter = true
    return this.#hold(() => {
      this.#hasWriter = false
    })
  }

  #hold(leave: () => void): Held {
    let isReleased = false
    const release = () => {
      if (isReleased) return
      isReleased = true
      leave()
      this.#admitNext()
    }
    return { release, [Symbol.dispose]: release }
  }

  #admitNext(): void {
    for (let first = this.#queue[0]; first !== undefined; first = this.#queue[0]) {
      if (this.#hasWriter || (first.isWriter && this.#readers > 0)) return
      this.#queue.shift()
      first.enter()
    }
  }
}
