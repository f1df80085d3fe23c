import type { KV } from '@nats-io/kv'
import { z } from 'zod'
import type { ClusterKey } from './cluster-key.ts'
import { addOnce, compareAndSet } from './compare-and-set.ts'
import { type WatchedBucket, watchBucket } from './watch-bucket.ts'

/** A snapshot that is in the depot for itself, not as the head of a sandbox. */
const recordSchema = z
  .object({
    /** The name of its list in the depot. */
    list: z.string(),
    /** What a host needs to restore it. */
    needs: z.unknown(),
    /** What a host without any of it has to fetch. An earlier version does not say. */
    bytes: z.number().nonnegative().optional(),
    /** False: only templates refer to it. */
    isKept: z.boolean(),
    owner: z.string(),
    sandboxId: z.string(),
    /** What its sandbox was forked from, and that in turn. */
    ancestors: z.array(z.string()),
    name: z.string().optional(),
    createdAt: z.number(),
    /** The host that has taken it, and keeps it until it is deleted. An earlier version does not say. */
    host: z.string().optional(),
    /** Its row, in the words of the server. */
    row: z.unknown(),
  })
  .loose()

export interface SnapshotRecordsOptions {
  readonly bucket: KV
  readonly key: ClusterKey
  /** A record that cannot be read is in no list. */
  readonly onUnreadable: (id: string, error: unknown) => void
}

export type SnapshotRecord = z.output<typeof recordSchema>

/** Snapshots of templates, and those that callers keep: every host knows of them and can fetch them. */
export class SnapshotRecords implements Disposable {
  readonly #bucket: KV
  readonly #key: ClusterKey
  readonly #records = new Map<string, SnapshotRecord>()
  #watch: WatchedBucket | undefined

  private constructor(bucket: KV, key: ClusterKey) {
    this.#bucket = bucket
    this.#key = key
  }

  /** Reads everything that is there, then follows the changes. */
  static async open(
    { bucket, key, onUnreadable }: SnapshotRecordsOptions,
    onRemoved: (id: string) => void,
  ): Promise<SnapshotRecords> {
    const records = new SnapshotRecords(bucket, key)
    records.#watch = await watchBucket(bucket, {
      put: (id, { value }) => records.#records.set(id, records.#parse(id, value)),
      removed: (id) => {
        records.#records.delete(id)
        onRemoved(id)
      },
      unreadable: (id, error) => {
        records.#records.delete(id)
        onUnreadable(id, error)
      },
    })
    return records
  }

  [Symbol.dispose](): void {
    this.#watch?.[Symbol.dispose]()
  }

  find(id: string): SnapshotRecord | undefined {
    return this.#records.get(id)
  }

  all(): Iterable<[string, SnapshotRecord]> {
    return this.#records
  }

  /** Asks NATS for all lists: none of them is older than this call. Throws when a record cannot be read. */
  async readLists(): Promise<string[]> {
    const lists = new Map<string, string | Error>()
    const watch = await watchBucket(this.#bucket, {
      put: (id, { value }) => lists.set(id, this.#parse(id, value).list),
      removed: (id) => lists.delete(id),
      unreadable: (id, error) =>
        lists.set(id, new Error(`the record of ${id} cannot be read`, { cause: error })),
    })
    watch[Symbol.dispose]()
    return [...lists.values()].map((list) => {
      if (typeof list !== 'string') throw list
      return list
    })
  }

  /** Whether it was removed, on any host. False when there never was one, as far as NATS knows. */
  async wasRemoved(id: string): Promise<boolean> {
    const entry = await this.#bucket.get(id)
    return entry !== null && entry.operation !== 'PUT'
  }

  /** False when there is one already, or it was removed: a snapshot that was deleted does not come back. */
  async add(id: string, record: SnapshotRecord): Promise<boolean> {
    const value = this.#key.seal(JSON.stringify(record), `snapshot ${id}`)
    if ((await addOnce(this.#bucket, id, value)) === undefined) return false
    this.#records.set(id, record)
    return true
  }

  /** Changes what it says of the snapshot. */
  async change(id: string, record: SnapshotRecord): Promise<void> {
    const found = await this.#bucket.get(id)
    if (found === null || found.operation !== 'PUT') return
    const value = this.#key.seal(JSON.stringify(record), `snapshot ${id}`)
    await compareAndSet(this.#bucket, id, { value, expected: found.revision })
  }

  async remove(id: string): Promise<void> {
    await this.#bucket.delete(id)
    this.#records.delete(id)
  }

  #parse(id: string, value: Uint8Array): SnapshotRecord {
    return recordSchema.parse(JSON.parse(this.#key.open(value, `snapshot ${id}`).toString()))
  }
}
