import { availableParallelism } from 'node:os'
import { Limiter } from '@dormouse/async'
import { ImageThread } from './image-thread.ts'

/** One sandbox whose images take long must not keep all others from being saved. */
const THREADS_MAX = Math.max(2, availableParallelism())

/** The image threads of one engine. Keeps one idle: starting a thread takes as long as a small dump. */
export class ImageThreads implements AsyncDisposable {
  readonly #limiter = new Limiter({ concurrency: THREADS_MAX })
  #idle: ImageThread | undefined

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
    if (this.#idle === undefined && this.#limiter.running < THREADS_MAX) this.#idle = new ImageThread()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#takeIdle()?.close()
  }

  #takeIdle(): ImageThread | undefined {
    const thread = this.#idle
    this.#idle = undefined
    return thread?.isOver === true ? undefined : thread
  }

  #return(thread: ImageThread): void {
    thread.forget()
    if (thread.isOver) return
    if (this.#idle === undefined) this.#idle = thread
    else void thread.close()
  }
}
