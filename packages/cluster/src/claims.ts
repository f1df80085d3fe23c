import type { KV } from '@nats-io/kv'
import type { ClusterKey } from './cluster-key.ts'
import { compareAndSet, read } from './compare-and-set.ts'

/** Things that exactly one host does. They are forgotten after some days. */
export class Claims {
  readonly #bucket: KV
  readonly #key: ClusterKey
  readonly #hostId: string

  constructor(options: { bucket: KV; key: ClusterKey; hostId: string }) {
    this.#bucket = options.bucket
    this.#key = options.key
    this.#hostId = options.hostId
  }

  /** True for exactly one of all hosts that claim it, and for that host each time. */
  async claim(what: string): Promise<boolean> {
    const name = this.#key.nameOf(what)
    const value = this.#hostId
    if ((await compareAndSet(this.#bucket, name, { value, expected: 0 })) !== undefined) return true
    return (await this.holder(what)) === this.#hostId
  }

  /** Takes a claim from a host whose lease has ended: `isOver` says so of the holder. */
  async takeOver(what: string, isOver: (holder: string) => Promise<boolean>): Promise<boolean> {
    const name = this.#key.nameOf(what)
    const found = await read(this.#bucket, name)
    if (found === undefined || !(await isOver(Buffer.from(found.value).toString()))) return false
    const { revision: expected } = found
    return (await compareAndSet(this.#bucket, name, { value: this.#hostId, expected })) !== undefined
  }

  /** The host that has claimed it. */
  async holder(what: string): Promise<string | undefined> {
    const found = await read(this.#bucket, this.#key.nameOf(what))
    return found && Buffer.from(found.value).toString()
  }
}
