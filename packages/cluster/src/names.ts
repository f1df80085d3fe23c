import type { KV } from '@nats-io/kv'
import type { ClusterKey } from './cluster-key.ts'
import { compareAndDelete, compareAndSet, read, untilWritten } from './compare-and-set.ts'

export interface NameOf {
  readonly name: string
  readonly owner: string
}

/** Which sandbox has which name: a name is unique among the sandboxes of its owner on all hosts. */
export class Names {
  readonly #bucket: KV
  readonly #key: ClusterKey
  readonly #exists: (id: string) => Promise<boolean>

  /** `exists`: whether the directory has that sandbox. */
  constructor(options: { bucket: KV; key: ClusterKey; exists: (id: string) => Promise<boolean> }) {
    this.#bucket = options.bucket
    this.#key = options.key
    this.#exists = options.exists
  }

  /** The sandbox that has the name now: `id`, or the one that had it first. Pre: `id` is in the directory. */
  async claim(id: string, of: NameOf): Promise<string> {
    const key = this.#keyOf(of)
    return await untilWritten(async () => {
      const found = await read(this.#bucket, key)
      const holder = found && Buffer.from(found.value).toString()
      if (holder === id) return id
      // A host that ended between the claim and the creation leaves a name without a sandbox.
      if (holder !== undefined && (await this.#exists(holder))) return holder
      const claimed = await compareAndSet(this.#bucket, key, { value: id, expected: found?.revision ?? 0 })
      return claimed === undefined ? undefined : id
    })
  }

  async find(of: NameOf): Promise<string | undefined> {
    const found = await read(this.#bucket, this.#keyOf(of))
    return found && Buffer.from(found.value).toString()
  }

  /** Does nothing when another sandbox has the name. */
  async release(id: string, of: NameOf): Promise<void> {
    const key = this.#keyOf(of)
    const found = await read(this.#bucket, key)
    if (found === undefined || Buffer.from(found.value).toString() !== id) return
    await compareAndDelete(this.#bucket, key, found.revision)
  }

  /** NATS shows keys to its operators, and names have characters that keys have not. */
  #keyOf({ name, owner }: NameOf): string {
    return this.#key.nameOf(`${owner}/${name}`)
  }
}
