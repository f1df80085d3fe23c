import type { KV } from '@nats-io/kv'
import { z } from 'zod'
import type { ClusterKey } from './cluster-key.ts'
import { type WatchedBucket, watchBucket } from './watch-bucket.ts'

const recordSchema = z
  .object({
    /** The name of its list in the depot. */
    list: z.string(),
    /** Hosts of another kind of processor have no use for it. */
    arch: z.string(),
    /** The host that has uploaded it. */
    host: z.string(),
    uploadedAt: z.number(),
    /** What a host has to fetch. An earlier version does not say. */
    bytes: z.number().nonnegative().optional(),
  })
  .loose()

/** A base that is in the depot: what snapshots of many sandboxes stand on. */
export type BaseRecord = z.output<typeof recordSchema>

export interface BaseRecordsOptions {
  readonly bucket: KV
  readonly key: ClusterKey
  /** A record that cannot be read counts as none. */
  readonly onUnreadable: (base: string, error: unknown) => void
  /** A host has found that nothing needs it. */
  readonly onRemoved?: (base: string) => void
}

/** The bucket has other records, too. Earlier versions ignore this prefix, and have the bucket in their backups. */
const PREFIX = 'base.'

/** Which bases are in the depot. Every host knows all of them. */
export class BaseRecords implements Disposable {
  readonly #options: BaseRecordsOptions
  readonly #records = new Map<string, BaseRecord>()
  #watch: WatchedBucket | undefined

  private constructor(options: BaseRecordsOptions) {
    this.#options = options
  }

  /** Reads everything that is there, then follows the changes. */
  static async open(options: BaseRecordsOptions): Promise<BaseRecords> {
    const records = new BaseRecords(options)
    records.#watch = await watchBucket(options.bucket, {
      put: (name, { value }) =>
        ofBase(name, (base) => records.#records.set(base, records.#parse(name, value))),
      removed: (name) =>
        ofBase(name, (base) => {
          records.#records.delete(base)
          options.onRemoved?.(base)
        }),
      unreadable: (name, error) =>
        ofBase(name, (base) => {
          records.#records.delete(base)
          options.onUnreadable(base, error)
        }),
    })
    return records
  }

  [Symbol.dispose](): void {
    this.#watch?.[Symbol.dispose]()
  }

  find(base: string): BaseRecord | undefined {
    return this.#records.get(base)
  }

  all(): Iterable<[string, BaseRecord]> {
    return this.#records
  }

  /** Asks NATS for all lists: none of them is older than this call. Throws when a record cannot be read. */
  async readLists(): Promise<string[]> {
    const lists = new Map<string, string | Error>()
    const watch = await watchBucket(this.#options.bucket, {
      put: (name, { value }) => ofBase(name, (base) => lists.set(base, this.#parse(name, value).list)),
      removed: (name) => ofBase(name, (base) => lists.delete(base)),
      unreadable: (name, error) =>
        ofBase(name, (base) =>
          lists.set(base, new Error(`the record of ${base} cannot be read`, { cause: error })),
        ),
    })
    watch[Symbol.dispose]()
    return [...lists.values()].map((list) => {
      if (typeof list !== 'string') throw list
      return list
    })
  }

  /** Records of one base say the same, whichever host writes them: the last one stays. */
  async put(base: string, record: BaseRecord): Promise<void> {
    const { bucket, key } = this.#options
    const name = PREFIX + base
    await bucket.put(name, key.seal(JSON.stringify(record), name))
    this.#records.set(base, record)
  }

  async remove(base: string): Promise<void> {
    await this.#options.bucket.delete(PREFIX + base)
    this.#records.delete(base)
  }

  #parse(name: string, value: Uint8Array): BaseRecord {
    return recordSchema.parse(JSON.parse(this.#options.key.open(value, name).toString()))
  }
}

function ofBase(name: string, act: (base: string) => void): void {
  if (name.startsWith(PREFIX)) act(name.slice(PREFIX.length))
}
