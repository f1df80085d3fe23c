import { DormouseError } from '@dormouse/contracts'

interface Waiting {
  readonly isExclusive: boolean
  readonly enter: () => void
}

export interface Turn extends Disposable {
  release(): void
}

/**
 * Orders what is done to one sandbox: calls into it share a turn, changes of its state take one alone. First come, first served:
 * a change waits for the calls before it, and calls behind it wait for the change.
 */
export class Turns {
  readonly #queue: Waiting[] = []
  #sharing = 0
  #hasExclusive = false

  /** True when nothing is going on and nobody waits. */
  get isFree(): boolean {
    return this.#sharing === 0 && !this.#hasExclusive && this.#queue.length === 0
  }

  get isChanging(): boolean {
    return this.#hasExclusive || this.#queue.some(({ isExclusive }) => isExclusive)
  }

  shared(signal?: AbortSignal): Turn | Promise<Turn> {
    // The usual case costs no trip through the microtask queue.
    if (!this.#hasExclusive && this.#queue.length === 0) return this.#enterShared()
    return this.#wait(false, signal)
  }

  async exclusive<Value>(work: () => Promise<Value>, signal?: AbortSignal): Promise<Value> {
    const turn = this.isFree ? this.#enterExclusive() : await this.#wait(true, signal)
    try {
      return await work()
    } finally {
      turn.release()
    }
  }

  #wait(isExclusive: boolean, signal: AbortSignal | undefined): Promise<Turn> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        isExclusive,
        enter: () => {
          signal?.removeEventListener('abort', giveUp)
          resolve(isExclusive ? this.#enterExclusive() : this.#enterShared())
        },
      }
      const giveUp = () => {
        this.#queue.splice(this.#queue.indexOf(waiting), 1)
        reject(new DormouseError('cancelled', 'The caller gave up waiting for the sandbox.'))
        this.#next()
      }
      if (signal?.aborted) {
        reject(new DormouseError('cancelled', 'The caller gave up waiting for the sandbox.'))
        return
      }
      signal?.addEventListener('abort', giveUp, { once: true })
      this.#queue.push(waiting)
    })
  }

  #enterShared(): Turn {
    this.#sharing += 1
    return this.#turn(() => {
      this.#sharing -= 1
    })
  }

  #enterExclusive(): Turn {
    this.#hasExclusive = true
    return this.#turn(() => {
      this.#hasExclusive = false
    })
  }

  #turn(leave: () => void): Turn {
    let isOver = false
    const release = () => {
      if (isOver) return
      isOver = true
      leave()
      this.#next()
    }
    return { release, [Symbol.dispose]: release }
  }

  #next(): void {
    for (let first = this.#queue[0]; first !== undefined; first = this.#queue[0]) {
      if (this.#hasExclusive || (first.isExclusive && this.#sharing > 0)) return
      this.#queue.shift()
      first.enter()
    }
  }
}
