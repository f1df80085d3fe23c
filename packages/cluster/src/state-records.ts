import { DormouseError } from '@dormouse/contracts'
import type { KV } from '@nats-io/kv'
import type { ClusterKey } from './cluster-key.ts'
import { compareAndSet, read } from './compare-and-set.ts'
import { type WatchedBucket, watchBucket } from './watch-bucket.ts'

/** Counts changes of the format that an older version cannot read. */
export const STATE_FORMAT = 1

/** A row of a table that all hosts have. `key` is its place in the table. */
export interface StateRecord {
  readonly table: string
  readonly key: string
  readonly row: Readonly<Record<string, unknown>>
}

export interface StateListener {
  /** Must not throw. */
  readonly put: (record: StateRecord) => void
  readonly removed: (place: Pick<StateRecord, 'table' | 'key'>) => void
  /** A record that this host cannot read: a newer version has written it, or it is damaged. */
  readonly unreadable: (name: string) => void
}

const MARK = 'made'

/** Rows that every host of the cluster has: secrets, templates, schedules and the like. The last write wins. */
export class StateRecords implements Disposable {
  /** Identifies the bucket: a host that knows another one has never seen this state. */
  readonly id: string
  readonly #bucket: KV
  readonly #key: ClusterKey
  readonly #places = new Map<string, Pick<StateRecord, 'table' | 'key'>>()
  /** Revisions of what this host has written: it hears of them, too. */
  readonly #written = new Map<string, number>()
  #watch: WatchedBucket | undefined

  private constructor(bucket: KV, key: ClusterKey, id: string) {
    this.#bucket = bucket
    this.#key = key
    this.id = id
  }

  /** Tells all records that there are, then every change. */
  static async open(
    { bucket, key, newId }: { bucket: KV; key: ClusterKey; newId: string },
    listener: StateListener,
  ): Promise<StateRecords> {
    await compareAndSet(bucket, MARK, { value: newId, expected: 0 })
    const mark = await read(bucket, MARK)
    const records = new StateRecords(bucket, key, Buffer.from(mark?.value ?? []).toString())
    records.#watch = await watchBucket(bucket, {
      put: (name, { value, revision }) => {
        if ((records.#written.get(name) ?? 0) < revision) records.#tell(name, value, listener)
      },
      removed: (name) => {
        const place = records.#places.get(name)
        records.#places.delete(name)
        if (place !== undefined) listener.removed(place)
      },
      unreadable: (name) => listener.unreadable(name),
    })
    return records
  }

  [Symbol.dispose](): void {
    this.#watch?.[Symbol.dispose]()
  }

  has(place: Pick<StateRecord, 'table' | 'key'>): boolean {
    return this.#places.has(this.#nameOf(place))
  }

  async put(record: StateRecord): Promise<void> {
    const name = this.#nameOf(record)
    const value = this.#key.seal(JSON.stringify({ format: STATE_FORMAT, ...record }), name)
    this.#written.set(name, await this.#bucket.put(name, value))
    this.#places.set(name, { table: record.table, key: record.key })
  }

  async remove(place: Pick<StateRecord, 'table' | 'key'>): Promise<void> {
    const name = this.#nameOf(place)
    await this.#bucket.delete(name)
    this.#places.delete(name)
  }

  #tell(name: string, value: Uint8Array, listener: StateListener): void {
    if (name === MARK) return
    const { format, ...record } = JSON.parse(this.#key.open(value, name).toString()) as StateRecord & {
      format: number
    }
    if (format > STATE_FORMAT) {
      listener.unreadable(name)
      return
    }
    this.#places.set(name, { table: record.table, key: record.key })
    listener.put(record)
  }

  /** NATS shows names to its operators, so they say nothing about keys. */
  #nameOf({ table, key }: Pick<StateRecord, 'table' | 'key'>): string {
    return `${table}.${this.#key.nameOf(key)}`
  }
}

/** Throws when a newer version of Dormouse has changed the format of what the hosts keep in NATS. */
export async function requireFormat(keys: KV): Promise<void> {
  await compareAndSet(keys, 'format', { value: String(STATE_FORMAT), expected: 0 })
  const found = await read(keys, 'format')
  const format = Number(Buffer.from(found?.value ?? []).toString())
  if (format === STATE_FORMAT) return
  if (format < STATE_FORMAT && found !== undefined) {
    await compareAndSet(keys, 'format', { value: String(STATE_FORMAT), expected: found.revision })
    return
  }
  throw new DormouseError(
    'setup_failed',
    `The cluster keeps its state in format ${format}; this version knows formats up to ${STATE_FORMAT}.`,
    { hint: 'Install the version of the other hosts on this one.' },
  )
}
