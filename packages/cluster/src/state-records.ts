import type { KV } from '@nats-io/kv'
import type { ClusterKey } from './cluster-key.ts'
import { compareAndSet, read } from './compare-and-set.ts'
import { STATE_FORMAT, type StateFormat } from './state-format.ts'
import { type WatchedBucket, watchBucket } from './watch-bucket.ts'

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

export interface StateRecordsOptions {
  readonly bucket: KV
  readonly key: ClusterKey
  readonly newId: string
  readonly format: Pick<StateFormat, 'written' | 'newest'>
}

const MARK = 'made'

/** How a record is written for hosts that read no newer format than this. */
const WRITERS: Readonly<Record<number, (record: StateRecord) => object>> = { 1: (record) => record }

/** Rows that every host of the cluster has: secrets, templates, schedules and the like. The last write wins. */
export class StateRecords implements Disposable {
  /** Identifies the bucket: a host that knows another one has never seen this state. */
  readonly id: string
  readonly #bucket: KV
  readonly #key: ClusterKey
  readonly #format: StateRecordsOptions['format']
  readonly #places = new Map<string, Pick<StateRecord, 'table' | 'key'>>()
  /** Revisions of what this host has written: it hears of them, too. */
  readonly #written = new Map<string, number>()
  #watch: WatchedBucket | undefined

  private constructor({ bucket, key, format }: StateRecordsOptions, id: string) {
    this.#bucket = bucket
    this.#key = key
    this.#format = format
    this.id = id
  }

  /** Tells all records that there are, then every change. */
  static async open(options: StateRecordsOptions, listener: StateListener): Promise<StateRecords> {
    const { bucket, newId } = options
    await compareAndSet(bucket, MARK, { value: newId, expected: 0 })
    const mark = await read(bucket, MARK)
    const records = new StateRecords(options, Buffer.from(mark?.value ?? []).toString())
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
    const format = this.#format.written
    const write = WRITERS[format] ?? WRITERS[STATE_FORMAT]
    const value = this.#key.seal(JSON.stringify({ format, ...write?.(record) }), name)
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
    if (format > this.#format.newest) {
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
