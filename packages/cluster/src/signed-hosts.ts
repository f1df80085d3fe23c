import type { KV } from '@nats-io/kv'
import type { ClusterKey } from './cluster-key.ts'
import { read } from './compare-and-set.ts'

const MARK = 'signed-hosts'

/**
 * Whether host records must be signed. Versions before this one neither sign nor check them, so a cluster requires it
 * only when all of its hosts have signed for a while. From then on such a version cannot join.
 */
export class SignedHosts {
  readonly #bucket: KV
  readonly #key: ClusterKey
  #isRequired = false

  constructor({ keys, key }: { keys: KV; key: ClusterKey }) {
    this.#bucket = keys
    this.#key = key
  }

  get isRequired(): boolean {
    return this.#isRequired
  }

  /** Another host may have required it. It is never taken back. */
  async look(): Promise<void> {
    if (this.#isRequired) return
    const mark = await read(this.#bucket, MARK)
    if (mark === undefined) return
    try {
      this.#key.open(mark.value, MARK)
      this.#isRequired = true
    } catch {
      // Written without the key: it says nothing.
    }
  }

  async require(): Promise<void> {
    if (this.#isRequired) return
    await this.#bucket.put(MARK, this.#key.seal('', MARK))
    this.#isRequired = true
  }
}
