import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError } from '@dormouse/contracts'
import type { KV } from '@nats-io/kv'
import { z } from 'zod'
import type { ClusterKey } from './cluster-key.ts'
import {
  addOnce,
  answered,
  compareAndDelete,
  compareAndSet,
  read,
  type Versioned,
} from './compare-and-set.ts'
import { type WatchedBucket, watchBucket } from './watch-bucket.ts'

const CATCH_UP_MS = 10_000
/** A mark is usually told within milliseconds. After this time the watch begins again. */
const TOLD_MS = 2_000
/** More than there are builds of templates, versions of tools and kinds of hosts in most clusters. */
const SHARED_MAX = 1_000

/** A snapshot that is completely in the depot. */
const replicaSchema = z.object({
  snapshotId: z.string(),
  /** The name of its list of chunks in the depot. */
  list: z.string(),
  createdAt: z.iso.datetime(),
  /** What a host needs to restore it. */
  needs: z.unknown(),
  /** What a host without any of it has to fetch. An earlier version does not say. */
  bytes: z.number().nonnegative().optional(),
})

const entrySchema = z.object({
  /** The host that owns the sandbox, by the lease `epoch`. */
  host: z.string(),
  epoch: z.int().positive(),
  /** Counts how often the sandbox has changed its host. */
  generation: z.int().nonnegative(),
  owner: z.string(),
  name: z.string().optional(),
  /** The name that it is about to get. Without it in its row, the host that continues it gives that name back. */
  nextName: z.string().optional(),
  state: z.string(),
  /** The snapshot that it wakes from on its host. */
  head: z.string().optional(),
  createdAt: z.number(),
  replica: replicaSchema.optional(),
  /** What it was forked from, and that in turn. */
  ancestors: z.array(z.string()).optional(),
  /** The row of the sandbox, in the words of the server. */
  row: z.unknown(),
})

/** Keeps fields of a newer version: hosts of two versions work side by side during an upgrade. */
const storedEntrySchema = entrySchema.extend({ replica: replicaSchema.loose().optional() }).loose()

export type Replica = z.output<typeof replicaSchema>
export type DirectoryEntry = z.output<typeof entrySchema>

export interface Located<Entry = DirectoryEntry> {
  readonly id: string
  readonly entry: Entry
  readonly revision: number
}

/** The host that owns what the entry is about, by the lease `epoch`. */
interface Claimed {
  readonly host: string
  readonly epoch: number
}

/** What a directory is about. */
export interface EntryKind<Entry> {
  /** Encrypted entries open only as entries of their kind. */
  readonly name: string
  readonly schema: z.ZodType<Entry>
  /** The same entry, with `once` applied to parts that many entries have alike. */
  readonly share?: (entry: Entry, once: <Value>(value: Value) => Value) => Entry
}

const SANDBOX_ENTRIES: EntryKind<DirectoryEntry> = {
  name: 'directory',
  schema: storedEntrySchema,
  // Half of an entry: features of the CPU, and the build of the template.
  share: (entry, once) =>
    entry.replica === undefined
      ? entry
      : { ...entry, replica: { ...entry.replica, needs: once(entry.replica.needs) } },
}

export interface DirectoryOptions<Entry = DirectoryEntry> {
  readonly bucket: KV
  readonly key: ClusterKey
  /** Throws for an entry that the server cannot use. */
  readonly check?: (id: string, entry: Entry) => void
  readonly onUnreadable?: (id: string, error: unknown) => void
}

/**
 * Which host owns which sandbox, or which service. Every write is a compare-and-set on the revision that the writer
 * knows; `undefined` means that the entry has changed meanwhile. What is cached may be old by some milliseconds; a write
 * never is.
 */
export class Directory<Entry extends Claimed = DirectoryEntry> implements Disposable {
  readonly #bucket: KV
  readonly #key: ClusterKey
  readonly #kind: EntryKind<Entry>
  readonly #check: (id: string, entry: Entry) => void
  readonly #entries = new Map<string, Located<Entry>>()
  readonly #waiting = new Set<{ revision: number; resolve: () => void }>()
  /** Parts of entries that are in memory once. */
  readonly #shared = new Map<string, unknown>()
  /** Marks that were written and not told yet. */
  readonly #marks = new Map<string, () => void>()
  #seenRevision = 0
  #watch: WatchedBucket | undefined

  private constructor(kind: EntryKind<Entry>, { bucket, key, check = () => {} }: DirectoryOptions<Entry>) {
    this.#bucket = bucket
    this.#key = key
    this.#kind = kind
    this.#check = check
  }

  /**
   * Reads everything that is there, then follows the changes. `onChange` also hears of changes by this host. An entry that
   * cannot be read is in no list, and `read` throws for it.
   */
  static async openOf<Entry extends Claimed>(
    kind: EntryKind<Entry>,
    options: DirectoryOptions<Entry>,
    onChange: (id: string, located: Located<Entry> | undefined) => void = () => {},
  ): Promise<Directory<Entry>> {
    const { bucket, onUnreadable = () => {} } = options
    const directory = new Directory<Entry>(kind, options)
    directory.#watch = await watchBucket(bucket, {
      put: (id, entry) => {
        directory.#see(entry.revision)
        const located = directory.#remember(id, entry)
        if (located !== undefined) onChange(id, located)
      },
      removed: (id, revision) => {
        directory.#see(revision)
        directory.#marks.get(id)?.()
        if ((directory.#entries.get(id)?.revision ?? 0) > revision) return
        directory.#entries.delete(id)
        onChange(id, undefined)
      },
      unreadable: (id, error) => {
        directory.#entries.delete(id)
        onUnreadable(id, error)
      },
    })
    return directory
  }

  /** The directory of sandboxes. */
  static open(
    options: DirectoryOptions,
    onChange?: (id: string, located: Located | undefined) => void,
  ): Promise<Directory> {
    return Directory.openOf(SANDBOX_ENTRIES, options, onChange)
  }

  [Symbol.dispose](): void {
    this.#watch?.[Symbol.dispose]()
  }

  /** Resolves when every write before this one, by any host, is in `all`. */
  async seen({ revision }: Pick<Located<Entry>, 'revision'>): Promise<void> {
    if (this.#seenRevision >= revision) return
    await new Promise<void>((resolve) => this.#waiting.add({ revision, resolve }))
  }

  #see(revision: number): void {
    this.#seenRevision = revision
    for (const one of this.#waiting) {
      if (one.revision > revision) continue
      this.#waiting.delete(one)
      one.resolve()
    }
  }

  find(id: string): Located<Entry> | undefined {
    return this.#entries.get(id)
  }

  all(): Iterable<Located<Entry>> {
    return this.#entries.values()
  }

  /** Asks NATS for all entries: none of them is older than this call. Throws when one of them cannot be read. */
  async readAll(): Promise<Located<Entry>[]> {
    const found = new Map<string, Located<Entry>>()
    const unreadable = new Map<string, unknown>()
    const watch = await watchBucket(this.#bucket, {
      put: (id, { value, revision }) => {
        unreadable.delete(id)
        found.set(id, { id, entry: this.#parse(id, value), revision })
      },
      removed: (id) => {
        unreadable.delete(id)
        found.delete(id)
      },
      unreadable: (id, error) => unreadable.set(id, error),
    })
    watch[Symbol.dispose]()
    for (const error of unreadable.values()) throw error
    return [...found.values()]
  }

  /** Removes the marks of sandboxes that were deleted longer ago: see `wasRemoved`. */
  async forgetRemoved(olderMs: number): Promise<void> {
    // Missing in the types of the interface.
    const bucket = this.#bucket as KV & { purgeDeletes(olderMs: number): Promise<unknown> }
    await bucket.purgeDeletes(olderMs)
  }

  /** Asks the leader of the bucket: for an entry that may be newer than what was heard of. */
  async read(id: string): Promise<Located<Entry> | undefined> {
    const before = this.#entries.get(id)
    const found = await read(this.#bucket, id)
    // What was known before the leader was asked is not newer than its answer, whatever its revision: servers of NATS whose
    // disks were full may number the same entries otherwise, and a write needs the revision that the leader has.
    if (this.#entries.get(id) === before) this.#entries.delete(id)
    return found && this.#remember(id, found)
  }

  /** Post: what `find` and `read` return is not older than this call. The watch brings writes in order, also a mark. */
  async catchUp(): Promise<void> {
    const mark = `mark-${randomUUID()}`
    const stop = new AbortController()
    const told = new Promise<void>((resolve) => this.#marks.set(mark, resolve))
    const late = sleep(CATCH_UP_MS, undefined, { signal: stop.signal }).then(() => {
      throw new DormouseError(
        'cluster_unavailable',
        'NATS does not tell the newest entries of the directory.',
      )
    })
    try {
      await answered(this.#bucket.delete(mark))
      await Promise.race([this.#hears(told, stop.signal), late])
    } finally {
      this.#marks.delete(mark)
      stop.abort()
      late.catch(() => {})
    }
  }

  /** Watches anew while nothing is heard: what NATS kept for the watch may be lost. */
  async #hears(told: Promise<void>, signal: AbortSignal): Promise<void> {
    for (let isHeard = false; !isHeard; ) {
      const late = sleep(TOLD_MS, false, { signal })
      isHeard = await Promise.race([told.then(() => true), late])
      late.catch(() => {})
      if (!isHeard) await this.#watch?.renew().catch(() => {})
    }
  }

  /**
   * Whether a change that was acknowledged is the one that counts. A NATS cluster of an older version may acknowledge two
   * changes of one revision when they arrive at the same moment; the later one replaces the other. Both were proposed
   * before either was acknowledged, so the mark of `catchUp` comes after both. What was told must name the same host and
   * lease, and the leader must have the revision that it acknowledged.
   */
  async stands({ id, entry, revision }: Located<Entry>): Promise<boolean> {
    await this.catchUp()
    const told = this.#entries.get(id)?.entry
    if (told?.host !== entry.host || told.epoch !== entry.epoch) return false
    return (await this.read(id))?.revision === revision
  }

  /** Whether there was an entry that its owner has removed. False when there never was one, as far as NATS knows. */
  async wasRemoved(id: string): Promise<boolean> {
    const entry = await answered(this.#bucket.get(id))
    return entry !== null && entry.operation !== 'PUT'
  }

  /**
   * Undefined when there is an entry already, or its owner has removed it: a host that lost its lease may still want to
   * write of a sandbox that another one has deleted.
   */
  add(id: string, entry: Entry): Promise<Located<Entry> | undefined> {
    return this.#write(id, entry, 0)
  }

  /** Undefined when the entry has changed since `before`. */
  change(before: Located<Entry>, entry: Entry): Promise<Located<Entry> | undefined> {
    return this.#write(before.id, entry, before.revision)
  }

  /** False when the entry has changed since `before`. */
  async remove({ id, revision }: Located<Entry>): Promise<boolean> {
    const isRemoved = await compareAndDelete(this.#bucket, id, revision)
    if (isRemoved) this.#entries.delete(id)
    return isRemoved
  }

  async #write(id: string, entry: Entry, expected: number): Promise<Located<Entry> | undefined> {
    const value = this.#key.seal(JSON.stringify(entry), `${this.#kind.name} ${id}`)
    const revision =
      expected === 0
        ? await addOnce(this.#bucket, id, value)
        : await compareAndSet(this.#bucket, id, { value, expected })
    if (revision === undefined) return undefined
    const located = { id, entry: this.#share(entry), revision }
    if ((this.#entries.get(id)?.revision ?? 0) < revision) this.#entries.set(id, located)
    return located
  }

  #remember(id: string, { value, revision }: Versioned): Located<Entry> | undefined {
    if ((this.#entries.get(id)?.revision ?? 0) >= revision) return this.#entries.get(id)
    const located = { id, entry: this.#parse(id, value), revision }
    this.#entries.set(id, located)
    return located
  }

  #share(entry: Entry): Entry {
    const once = <Value>(value: Value): Value => {
      const text = JSON.stringify(value) ?? ''
      const known = this.#shared.get(text)
      if (known !== undefined) return known as Value
      const [oldest] = this.#shared.keys()
      if (this.#shared.size >= SHARED_MAX && oldest !== undefined) this.#shared.delete(oldest)
      this.#shared.set(text, value)
      return value
    }
    return this.#kind.share?.(entry, once) ?? entry
  }

  /** A newer version may have written an entry. One that is ignored would look like a free sandbox. */
  #parse(id: string, value: Uint8Array): Entry {
    const parsed = this.#kind.schema.safeParse(
      JSON.parse(this.#key.open(value, `${this.#kind.name} ${id}`).toString()),
    )
    if (parsed.success) {
      this.#check(id, parsed.data)
      return this.#share(parsed.data)
    }
    throw new DormouseError(
      'setup_failed',
      `The directory has an entry that this version cannot read: ${id}.`,
    )
  }
}
