import { DormouseError } from '@dormouse/contracts'
import type { KV } from '@nats-io/kv'
import { compareAndSet, read } from './compare-and-set.ts'
import type { Hosts } from './hosts.ts'

/** Counts changes of the format that an older version cannot read. */
export const STATE_FORMAT = 1

export interface StateFormatOptions {
  readonly keys: KV
  /** The newest format that this host reads. */
  readonly newest?: number | undefined
  /** How often the hosts are looked at. */
  readonly lookMs?: number
  /** How long a host counts after it was seen last. */
  readonly olderHostMs?: number
}

/** What a host must read to join. Versions before `WRITTEN` know only this one. */
const REQUIRED = 'format'
/** What hosts write; without it, what is required. */
const WRITTEN = 'format-written'
/** A record reaches every host that listens in much less. */
const LOOK_MS = 60_000
/** A host of an older version that was stopped for its upgrade may start again within this time. */
const OLDER_HOST_MS = 3600 * 1000

interface Found {
  readonly required: number
  readonly written: number
  readonly revisions: { readonly required: number; readonly written: number }
}

/**
 * The format of what the hosts keep in NATS. It is raised when no host needs the older one any more, in two steps: first
 * no older host can join, and then, when those that joined before have been seen, the hosts write the newer format.
 * Neither is ever lowered.
 */
export class StateFormat {
  /** The newest that this host reads. */
  readonly newest: number
  readonly #options: StateFormatOptions
  #written = 1
  #requiredBefore = Number.POSITIVE_INFINITY

  private constructor(options: StateFormatOptions) {
    this.#options = options
    this.newest = options.newest ?? STATE_FORMAT
  }

  /** A cluster that is new starts with the newest format. Throws `setup_failed`, see `require`. */
  static async open(options: StateFormatOptions): Promise<StateFormat> {
    const format = new StateFormat(options)
    await compareAndSet(options.keys, REQUIRED, { value: String(format.newest), expected: 0 })
    await format.require()
    return format
  }

  /** What this host writes. */
  get written(): number {
    return this.#written
  }

  /** What a host must read to join. Throws `setup_failed` when that is more than this host does. */
  async require(): Promise<number> {
    const { required, written } = await this.#read()
    if (!(required <= this.newest))
      throw new DormouseError(
        'setup_failed',
        `The cluster keeps its state in format ${required}; this version knows formats up to ${this.newest}.`,
        { hint: 'Install the version of the other hosts on this one.' },
      )
    this.#written = written
    return required
  }

  /** Raises the format when that is due, and learns what other hosts have raised. */
  follow(hosts: Hosts): Disposable {
    const timer = setInterval(() => void this.#look(hosts).catch(() => {}), this.#options.lookMs ?? LOOK_MS)
    timer.unref()
    return { [Symbol.dispose]: () => clearInterval(timer) }
  }

  async #look(hosts: Hosts): Promise<void> {
    const { olderHostMs = OLDER_HOST_MS } = this.#options
    const { required, written, revisions } = await this.#read()
    this.#written = Math.min(written, this.newest)
    const isSettled = this.#requiredBefore === required
    this.#requiredBefore = required
    if (!hosts.hasListened(olderHostMs)) return
    const read = hosts.seenWithin(olderHostMs).map(({ stateFormat = 1 }) => stateFormat)
    const target = Math.min(this.newest, ...read)
    if (required < target) {
      // Otherwise what is written would follow what is required.
      if (revisions.written === 0) await this.#set(WRITTEN, written, 0)
      await this.#set(REQUIRED, target, revisions.required)
    } else if (written < required && target >= required && isSettled) {
      if (await this.#set(WRITTEN, required, revisions.written)) this.#written = required
    }
  }

  async #read(): Promise<Found> {
    const { keys } = this.#options
    // In this order: what is written is never more than what was required before.
    const written = await read(keys, WRITTEN)
    const found = await read(keys, REQUIRED)
    const required = numberIn(found?.value)
    return {
      required,
      written: written === undefined ? required : Math.max(1, Math.min(numberIn(written.value), required)),
      revisions: { required: found?.revision ?? 0, written: written?.revision ?? 0 },
    }
  }

  async #set(name: string, format: number, expected: number): Promise<boolean> {
    const revision = await compareAndSet(this.#options.keys, name, { value: String(format), expected })
    return revision !== undefined
  }
}

function numberIn(value: Uint8Array | undefined): number {
  return Number(Buffer.from(value ?? []).toString())
}
