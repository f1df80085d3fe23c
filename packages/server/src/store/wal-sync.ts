import { closeSync, fdatasync, openSync } from 'node:fs'

/**
 * Syncs a WAL to disk without blocking the event loop. One sync at a time: the next one covers commits that come
 * meanwhile. SQLite keeps no locks on its WAL, so closing a descriptor here drops none.
 */
export class WalSync {
  readonly #path: string
  #fd: number | undefined
  #running: Promise<void> | undefined
  #next: Promise<void> | undefined
  #isClosed = false

  constructor(path: string) {
    this.#path = path
  }

  /** Resolves when all commits before the call are on disk. */
  async sync(): Promise<void> {
    // Closing the database syncs everything.
    if (this.#isClosed) return
    if (this.#running === undefined) return this.#start()
    this.#next ??= this.#running
      // Its own callers get the error.
      .catch(() => {})
      .then(() => {
        this.#next = undefined
        return this.sync()
      })
    return this.#next
  }

  #start(): Promise<void> {
    // Opened when needed: before the first commit there is no WAL.
    this.#fd ??= openSync(this.#path, 'r')
    const fd = this.#fd
    this.#running = new Promise<void>((resolve, reject) => {
      // fdatasync is enough to read the file again; SQLite itself does no more.
      fdatasync(fd, (error) => (error === null ? resolve() : reject(error)))
    }).finally(() => {
      this.#running = undefined
      if (this.#isClosed) this.#letGo()
    })
    return this.#running
  }

  close(): void {
    this.#isClosed = true
    if (this.#running === undefined) this.#letGo()
  }

  #letGo(): void {
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = undefined
  }
}
