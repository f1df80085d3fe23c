import { closeSync, fsyncSync, linkSync, openSync, rmSync, writeSync } from 'node:fs'
import { DormouseError } from '@dormouse/contracts'
import { encodeKey } from './read-cluster-key.ts'

const KEY_BYTES = 32

/** Space on disk for the key of a cluster, before the key is there. Throws `no_space`. */
export class KeyDraft implements Disposable {
  readonly #path: string
  readonly #draft: string
  readonly #file: number

  constructor(path: string) {
    this.#path = path
    this.#draft = `${path}.new`
    rmSync(this.#draft, { force: true })
    this.#file = openSync(this.#draft, 'wx', 0o600)
    try {
      this.#put(encodeKey(new Uint8Array(KEY_BYTES)))
    } catch (cause) {
      this[Symbol.dispose]()
      throw new DormouseError('no_space', 'There is no space for the key of the cluster.', {
        hint: 'Make some space in the data directory. The token was not used.',
        cause,
      })
    }
  }

  /** Throws when there is a key already. */
  write(key: Uint8Array): void {
    this.#put(encodeKey(key))
    linkSync(this.#draft, this.#path)
  }

  [Symbol.dispose](): void {
    closeSync(this.#file)
    rmSync(this.#draft, { force: true })
  }

  #put(text: string): void {
    writeSync(this.#file, text, 0)
    fsyncSync(this.#file)
  }
}
