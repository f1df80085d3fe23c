import { closeSync, fsync, openSync } from 'node:fs'

/**
 * Brings a WAL to disk without anybody waiting for it. One at a time: what was written meanwhile is covered by the next. SQLite keeps
 * no locks on its WAL, so closing a descriptor of ours drops none.
 */
export class LateSync {
  readonly synchronous: 'FULL' | 'NORMAL'
  readonly #path: string
  #fd: number | undefined
  #isSyncing = false
  #isWanted = false
  #isClosed = false

  constructor(path: string, synchronous: 'FULL' | 'NORMAL') {
    this.#path = path
    this.synchronous = synchronous
  }

  sync(): void {
    if (this.#isClosed || this.synchronous === 'NORMAL') return
    this.#isWanted = true
    if (this.#isSyncing) return
    // Opened once it is needed: before the first commit there is no WAL.
    this.#fd ??= openSync(this.#path, 'r')
    this.#isSyncing = true
    this.#isWanted = false
    // A disk that fails here fails the next commit too, and that one is heard.
    fsync(this.#fd, () => {
      this.#isSyncing = false
      if (this.#isClosed) this.#letGo()
      else if (this.#isWanted) this.sync()
    })
  }

  close(): void {
    this.#isClosed = true
    if (!this.#isSyncing) this.#letGo()
  }

  #letGo(): void {
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = undefined
  }
}
