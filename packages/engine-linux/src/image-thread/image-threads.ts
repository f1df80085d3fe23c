import { availableParallelism } from 'node:os'
import { Limiter } from '@dormouse/async'
import { ImageThread } from './image-thread.ts'

/** One sandbox whose images take long must not keep all others from being saved. */
const THREADS_MAX = Math.max(2, availableParallelism())

/** An idle thread has some 20 MB. A sleep after a longer pause starts one beside its dump. */
const IDLE_MAX_MS = 60_000

/** The image threads of one engine. Keeps one idle for a while: starting a thread takes as long as a small dump. */
export class ImageThreads implements AsyncDisposable {
  readonly #limiter = new Limiter({ concurrency: THREADS_MAX })
  #idle: ImageThread | undefined
  #closing: NodeJS.Timeout | undefined

  /** Lends a thread for as long as `work` takes. */
  use<Value>(work: (thread: ImageThread) => Promise<Value>): Promise<Value> {
    return this.#limiter.run(async () => {
      const thread = this.#takeIdle() ?? new ImageThread()
      try {
        return await work(thread)
      } finally {
        this.#return(thread)
      }
    })
  }

  /** Starts a thread unless one is idle, so that the next `use` need not wait for it. */
  prepare(): void {
    if (this.#idle === undefined && this.#limiter.running < THREADS_MAX) this.#keep(new ImageThread())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#takeIdle()?.close()
  }

  #takeIdle(): ImageThread | undefined {
    const thread = this.#idle
    this.#idle = undefined
    clearTimeout(this.#closing)
    return thread?.isOver === true ? undefined : thread
  }

  #return(thread: ImageThread): void {
    thread.forget()
    if (thread.isOver) return
    if (this.#idle === undefined) this.#keep(thread)
    else void thread.close()
  }

  #keep(thread: ImageThread): void {
    this.#idle = thread
    clearTimeout(this.#closing)
    this.#closing = setTimeout(() => void this.#takeIdle()?.close(), IDLE_MAX_MS).unref()
  }
}
