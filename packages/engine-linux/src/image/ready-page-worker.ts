import { PageWorker } from './page-worker.ts'

/**
 * A page worker that waits ahead of need, so that a restore does not wait for a program to start. It stays for the next
 * use.
 */
export class ReadyPageWorker implements AsyncDisposable {
  #idle: PageWorker | undefined
  #isClosed = false

  /** Starts a worker unless one waits. */
  prepare(): void {
    if (this.#isClosed) return
    if (this.#idle === undefined || this.#idle.hasEnded) this.#idle = new PageWorker()
  }

  /**
   * Lends a worker for as long as `work` takes. When the one that waited was killed, perhaps unnoticed until now, `work`
   * begins again with a new one.
   */
  async use<Value>(work: (worker: PageWorker) => Promise<Value>): Promise<Value> {
    const idle = this.#idle?.hasEnded === false ? this.#idle : undefined
    this.#idle = undefined
    const worker = idle ?? new PageWorker()
    try {
      const value = await work(worker)
      this.#keep(worker)
      return value
    } catch (error) {
      const isLost = worker === idle && worker.wasKilled
      void worker[Symbol.asyncDispose]()
      if (isLost) return this.use(work)
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    await this.#idle?.[Symbol.asyncDispose]()
  }

  #keep(worker: PageWorker): void {
    if (this.#idle === undefined && !this.#isClosed) this.#idle = worker
    else void worker[Symbol.asyncDispose]()
  }
}
