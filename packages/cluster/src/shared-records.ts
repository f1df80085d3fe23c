import type { KV } from '@nats-io/kv'
import type { ClusterKey } from './cluster-key.ts'
import { type WatchedBucket, watchBucket } from './watch-bucket.ts'

export interface SharedRecordsOptions<Item> {
  readonly bucket: KV
  readonly key: ClusterKey
  /** Keys of the bucket that are records of this kind start with it. */
  readonly prefix: string
  /** Another host, or this one, has written a record. Must not throw. */
  readonly onRecord: (id: string, item: Item) => void
}

/** Small records that every host has: the last write wins. */
export class SharedRecords<Item> implements Disposable {
  readonly #options: SharedRecordsOptions<Item>
  readonly #ids = new Set<string>()
  #watch: WatchedBucket | undefined

  private constructor(options: SharedRecordsOptions<Item>) {
    this.#options = options
  }

  /** Tells all records that there are, then every change. */
  static async open<Item>(options: SharedRecordsOptions<Item>): Promise<SharedRecords<Item>> {
    const records = new SharedRecords(options)
    const { prefix, key, bucket, onRecord } = options
    records.#watch = await watchBucket(bucket, {
      put: (name, { value }) => {
        if (!name.startsWith(prefix)) return
        records.#ids.add(name.slice(prefix.length))
        onRecord(name.slice(prefix.length), JSON.parse(key.open(value, name).toString()) as Item)
      },
      removed: () => {},
    })
    return records
  }

  [Symbol.dispose](): void {
    this.#watch?.[Symbol.dispose]()
  }

  has(id: string): boolean {
    return this.#ids.has(id)
  }

  async put(id: string, item: Item): Promise<void> {
    const { bucket, key, prefix } = this.#options
    await bucket.put(prefix + id, key.seal(JSON.stringify(item), prefix + id))
    this.#ids.add(id)
  }
}
