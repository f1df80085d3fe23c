import { setTimeout as sleep } from 'node:timers/promises'
import { settledWithin } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import type { KV, KvWatchEntry } from '@nats-io/kv'
import type { Versioned } from './compare-and-set.ts'

export interface BucketListener {
  /** Throws for an entry that it cannot read. */
  readonly put: (key: string, entry: Versioned) => void
  readonly removed: (key: string, revision: number) => void
  /** `put` has thrown. All others are told: one damaged entry must not hide what follows it. */
  readonly unreadable?: (key: string, error: unknown) => void
}

export interface WatchedBucket extends Disposable {
  /**
   * Watches anew, from the entry after the last one that was told. NATS keeps the place of a watch on one server only:
   * when that server is gone, a watch may hear nothing for a minute or more. Rejects when NATS does not answer.
   */
  renew(): Promise<void>
}

/** While a bucket is told, NATS says something in less. Telling all of a large one takes longer. */
const LOAD_MS = 20_000
const RENEW_PAUSE_MS = 1_000
/** Longer than the client of NATS needs to notice a lost watch by itself, if its clock runs. */
const SILENT_MS = 20_000

/**
 * Tells everything that a bucket holds, then every change. Resolves when what it holds has been told. Throws
 * `cluster_unavailable` when NATS falls silent before: a host that starts must not wait for that without an end.
 */
export async function watchBucket(
  bucket: KV,
  listener: BucketListener,
  { loadMs = LOAD_MS, silentMs = SILENT_MS } = {},
): Promise<WatchedBucket> {
  const { values, streamInfo } = await bucket.status()
  const watch = new Watch(bucket, listener, silentMs)
  const isLoaded = watch.tells({ revision: streamInfo.state.last_seq, keys: values })
  try {
    await watch.renew()
    if (values === 0) return watch
    for (let told = 0; !(await settledWithin(isLoaded, loadMs)); told = watch.toldRevision)
      if (watch.toldRevision === told) throw notTold(streamInfo.config.name)
  } catch (error) {
    watch[Symbol.dispose]()
    throw error
  }
  return watch
}

/** What a bucket holds, as its leader says. */
interface Held {
  /** The newest one. */
  readonly revision: number
  /** How many, with those that were removed. */
  readonly keys: number
}

type Entries = Awaited<ReturnType<KV['watch']>>

class Watch implements WatchedBucket {
  readonly #bucket: KV
  readonly #listener: BucketListener
  #entries: Entries | undefined
  #renewing: Promise<void> | undefined
  #isClosed = false
  #toldRevision = 0
  #waiting: (Held & { told: Set<string>; resolve: () => void }) | undefined
  readonly #looks: NodeJS.Timeout
  #heardMs = performance.now()
  /** The newest revision at the last look. */
  #lookedAt = 0

  constructor(bucket: KV, listener: BucketListener, silentMs: number) {
    this.#bucket = bucket
    this.#listener = listener
    this.#looks = setInterval(() => void this.#look(silentMs).catch(() => {}), silentMs).unref()
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    clearInterval(this.#looks)
    this.#entries?.stop()
  }

  get toldRevision(): number {
    return this.#toldRevision
  }

  /** Resolves when all of this has been told. */
  tells(held: Held): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting = { ...held, told: new Set(), resolve }
    })
  }

  renew(): Promise<void> {
    this.#renewing ??= this.#begin().finally(() => {
      this.#renewing = undefined
    })
    return this.#renewing
  }

  async #begin(): Promise<void> {
    const next = this.#toldRevision + 1
    const entries = await this.#bucket.watch(next > 1 ? { resumeFromRevision: next } : {})
    const before = this.#entries
    this.#entries = entries
    before?.stop()
    if (this.#isClosed) entries.stop()
    void this.#follow(entries)
  }

  async #follow(entries: Entries): Promise<void> {
    for await (const entry of entries) {
      // Another watch has taken its place, and may have told more.
      if (this.#isClosed || entries !== this.#entries) return
      if (entry.revision <= this.#toldRevision) continue
      tell(this.#listener, entry)
      this.#heardMs = performance.now()
      this.#toldRevision = entry.revision
      this.#requireMore(entry)
    }
    // The client of NATS gives a watch up when it could not begin it again for long.
    while (!this.#isClosed && entries === this.#entries) {
      await sleep(RENEW_PAUSE_MS, undefined, { ref: false })
      await this.renew().catch(() => {})
    }
  }

  /**
   * The server that tells may lag behind the leader, and then takes what it has for all. The newest entry of the leader
   * may have been removed meanwhile, and the count of those to come is a statistic of NATS: so one of the two is enough.
   */
  #requireMore({ key, revision, delta }: KvWatchEntry): void {
    const waiting = this.#waiting
    if (waiting === undefined) return
    waiting.told.add(key)
    if (waiting.told.size < waiting.keys || (delta !== 0 && revision < waiting.revision)) return
    this.#waiting = undefined
    waiting.resolve()
  }

  /** Asks NATS after a silence: the watch begins again when what was there at one look is not told by the next. */
  async #look(silentMs: number): Promise<void> {
    if (performance.now() - this.#heardMs < silentMs) return
    const { streamInfo } = await this.#bucket.status()
    if (this.#isClosed) return
    const isMissed = this.#lookedAt > this.#toldRevision
    this.#lookedAt = streamInfo.state.last_seq
    if (isMissed) await this.renew()
  }
}

function notTold(stream: string): DormouseError {
  return new DormouseError('cluster_unavailable', `NATS does not tell all that the stream ${stream} holds.`, {
    hint: 'Start this host again. If that does not help, see "When a disk of NATS is full" in docs/guides/cluster.md.',
    details: { retryAfterMs: 1_000 },
  })
}

function tell({ put, removed, unreadable }: BucketListener, entry: KvWatchEntry): void {
  if (entry.operation !== 'PUT') {
    removed(entry.key, entry.revision)
    return
  }
  try {
    put(entry.key, { value: entry.value, revision: entry.revision })
  } catch (error) {
    unreadable?.(entry.key, error)
  }
}
