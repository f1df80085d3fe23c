import { randomUUID } from 'node:crypto'
import { settledWithin } from '@dormouse/async'
import { type ClusterConnection, type StateRecord, StateRecords } from '@dormouse/cluster'
import type { Log } from '../log.ts'
import type { SealedValues } from '../secrets/sealed-values.ts'
import type { Database } from '../store/database.ts'
import type { SqlValue } from '../store/statement.ts'
import type { ClusterRows } from './cluster-rows.ts'
import { Outbox, type Row, type SharedTable, type Waiting } from './outbox.ts'

export interface SharedStateOptions {
  readonly connection: ClusterConnection
  readonly rows: ClusterRows
  readonly tables: readonly SharedTable[]
  /** Decrypts and encrypts the sealed columns of this host. */
  readonly values: SealedValues
  /** A host without a lease sends nothing. */
  readonly isHeld: () => boolean
  readonly log: Log
}

const LOOK_MS = 100
const AT_ONCE = 100
/** How long a request waits until the other hosts can have what it changed. */
const FLUSH_MS = 3_000

/**
 * Tables that are the same on all hosts. Each host reads and writes its own copy; an outbox carries its changes to NATS
 * and the watch of the bucket brings those of the others. Two changes of one row at once: the one that reaches NATS
 * last wins everywhere.
 */
export class SharedState implements Disposable {
  readonly #options: SharedStateOptions
  readonly #outboxes: readonly Outbox[]
  readonly #timer: NodeJS.Timeout
  /** Changes by others that could not be recorded, on a full disk for example. Newest of each row. */
  readonly #unrecorded = new Map<string, () => void>()
  #records: StateRecords | undefined
  #sending: Promise<void> | undefined

  private constructor(options: SharedStateOptions) {
    this.#options = options
    const byDb = new Map<Database, SharedTable[]>()
    for (const table of options.tables) byDb.set(table.db, [...(byDb.get(table.db) ?? []), table])
    this.#outboxes = [...byDb].map(([db, tables]) => new Outbox(db, tables))
    this.#timer = setInterval(() => {
      for (const record of [...this.#unrecorded.values()]) record()
      void this.#send()
    }, LOOK_MS).unref()
  }

  /** Resolves when this host has what the cluster has. */
  static async open(options: SharedStateOptions): Promise<SharedState> {
    const state = new SharedState(options)
    const { connection, rows, log } = options
    const { state: bucket, key, format } = connection
    state.#records = await StateRecords.open(
      { bucket, key, format, newId: randomUUID() },
      {
        put: (record) => state.#accept(record, record.row),
        removed: (place) => state.#accept(place, undefined),
        unreadable: (name) =>
          log.error({ name }, 'a row of the cluster is damaged, or of a newer version, and is left out here'),
      },
    )
    state.#settle(state.#records, rows)
    await state.flush()
    return state
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.#records?.[Symbol.dispose]()
  }

  /** Resolves when what was changed here before is in NATS, or after a short time: then it follows later. */
  async flush(): Promise<void> {
    if (this.#outboxes.every((outbox) => outbox.next(1).length === 0)) return
    await settledWithin(this.#send(), FLUSH_MS)
  }

  /**
   * A host that comes back removes rows that the others have deleted. A host that is new here, or whose bucket was made
   * anew, brings its own: it never removes rows because NATS has lost them.
   */
  #settle(records: StateRecords, rows: ClusterRows): void {
    const isKnown = rows.stateId === records.id
    for (const { table } of this.#options.tables) {
      const outbox = this.#outboxOf(table)
      for (const key of outbox?.keys(table) ?? []) {
        if (records.has({ table, key })) continue
        if (isKnown) outbox?.accept(table, key, undefined)
        else outbox?.enqueue(table, key)
      }
    }
    rows.stateId = records.id
  }

  #outboxOf(table: string): Outbox | undefined {
    return this.#outboxes.find((outbox) => outbox.has(table))
  }

  #accept({ table, key }: Pick<StateRecord, 'table' | 'key'>, row: StateRecord['row'] | undefined): void {
    const shared = this.#options.tables.find((one) => one.table === table)
    if (shared === undefined) return
    const place = `${table} ${key}`
    const record = () => {
      try {
        this.#outboxOf(table)?.accept(table, key, row && this.#decode(row))
        this.#unrecorded.delete(place)
      } catch (err) {
        if (!this.#unrecorded.has(place))
          this.#options.log.error({ err, table }, 'a row of the cluster could not be recorded yet')
        this.#unrecorded.set(place, record)
      }
    }
    record()
  }

  #send(): Promise<void> {
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined
    })
    return this.#sending
  }

  async #sendAll(): Promise<void> {
    const { isHeld, log } = this.#options
    for (const outbox of this.#outboxes) {
      try {
        for (let waiting = outbox.next(AT_ONCE); waiting.length > 0; waiting = outbox.next(AT_ONCE))
          for (const one of waiting) {
            if (!isHeld()) return
            await this.#sendOne(outbox, one)
          }
      } catch (err) {
        log.warn({ err }, 'the other hosts do not have all changes of this one yet')
      }
    }
  }

  async #sendOne(outbox: Outbox, waiting: Waiting): Promise<void> {
    const { tbl: table, key } = waiting
    const shared = this.#options.tables.find((one) => one.table === table)
    const row = shared && outbox.read(table, key)
    if (shared !== undefined && row !== undefined)
      await this.#records?.put({ table, key, row: this.#encode(shared, row) })
    else if (this.#records?.has({ table, key }) === true) await this.#records.remove({ table, key })
    outbox.done(waiting)
  }

  #encode({ sealed = [] }: SharedTable, row: Row): StateRecord['row'] {
    const { values } = this.#options
    return Object.fromEntries(
      Object.entries(row).map(([column, value]) => {
        if (!(value instanceof Uint8Array)) return [column, value]
        if (sealed.includes(column)) return [column, { sealed: values.find(value, String(row['id'])) ?? '' }]
        return [column, { bytes: Buffer.from(value).toString('base64') }]
      }),
    )
  }

  #decode(row: StateRecord['row']): Row {
    const { values } = this.#options
    return Object.fromEntries(
      Object.entries(row).map(([column, value]) => {
        if (value === null || typeof value !== 'object') return [column, value as SqlValue]
        const { sealed, bytes } = value as { sealed?: string; bytes?: string }
        if (sealed !== undefined) return [column, values.seal(sealed, String(row['id']))]
        return [column, Buffer.from(bytes ?? '', 'base64')]
      }),
    )
  }
}
