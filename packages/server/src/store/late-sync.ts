import { closeSync, fdatasync, openSync } from 'node:fs'

/**
 * Brings a WAL to disk without holding up the event loop. One at a time: what was written meanwhile is covered by the next. SQLite keeps
 * no locks on its WAL, so closing a descriptor of ours drops none.
 */
export class LateSync {
  readonly #path: string
  #fd: number | undefined
  #running: Promise<void> | undefined
  #next: Promise<void> | undefined
  #isClosed = false

  constructor(path: string) {
    this.#path = path
  }

  /** Post: all that was committed before the call is on disk. */
  async sync(): Promise<void> {
    // Whoever closes the database has it all on disk.
    if (this.#isClosed) return
    if (this.#running === undefined) return this.#start()
    this.#next ??= this.#running
      .catch(() => {})
      .then(() => {
        this.#next = undefined
        return this.sync()
      })
    return this.#next
  }

  #start(): Promise<void> {
    // Opened once it is needed: before the first commit there is no WAL.
    this.#fd ??= openSync(this.#path, 'r')
    const fd = this.#fd
    this.#running = new Promise<void>((resolve, reject) => {
      // Of what fsync does beyond this nothing is needed to read the file again; SQLite itself does no more.
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
