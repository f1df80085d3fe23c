import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { deflateRaw, inflateRaw } from 'node:zlib'
import { DormouseError } from '@dormouse/contracts'
import { BufferPool } from './buffer-pool.ts'
import type { ChunkCache } from './chunk-cache.ts'
import { ChunkThreads } from './chunk-threads.ts'
import { SEALED_MORE_BYTES } from './chunk-work.ts'
import type { ClusterKey } from './cluster-key.ts'
import type { ObjectStore } from './object-store.ts'

/** A message of NATS holds 1 MB by default: this leaves room for what cannot be compressed, and for headers. */
export const CHUNK_BYTES = 960 * 1024
/** Chunks that are read, named, sealed or sent at the same time. */
const IN_FLIGHT_MAX = 16
/** Objects that this host knows to be there: 64 bytes each. */
const KNOWN_MAX = 500_000
const CLOCK_MS = 60_000
/** Chunks that wait for the disk of the cache. */
const CACHING_MAX_BYTES = 64 * 1024 ** 2
export const DAY_MS = 24 * 3600 * 1000

const compress = promisify(deflateRaw)
/** Lists of a sandbox with a terabyte have less. */
const LIST_MAX_BYTES = 1024 ** 3
const inflate = promisify(inflateRaw)
const expand = (bytes: Uint8Array) => inflate(bytes, { maxOutputLength: LIST_MAX_BYTES })
/** Names are parts of paths and of subjects of NATS. */
const NAME = /^[A-Za-z0-9_-]{1,300}$/

export interface DepotOptions {
  readonly store: ObjectStore
  readonly key: ClusterKey
  readonly cache?: ChunkCache | undefined
  /** How long a name is used again: see `periodOf`. */
  readonly periodMs?: number
  /** How long the time of the store is taken from this host's own clock before it is asked for again. */
  readonly clockMs?: number
}

/** How much of an upload was new. */
export interface Stored {
  readonly chunks: readonly string[]
  readonly bytes: number
  readonly sentBytes: number
}

/**
 * Where snapshots are that more than one host can restore: chunks under a name that follows from their content,
 * compressed and encrypted, and lists that name chunks.
 *
 * A name ends with the period in which it was written, by the clock of the store. Writers rely on objects of their own
 * period only, and `collectDepot` removes objects of earlier ones. So it never removes what a writer relies on.
 */
export class Depot implements AsyncDisposable {
  readonly #options: DepotOptions
  readonly #threads: ChunkThreads
  readonly #known = new Set<string>()
  /** Chunks on their way into the cache. */
  #caching: Promise<void> = Promise.resolve()
  #cachingBytes = 0
  #clock: { readonly askedMs: number; readonly storeMs: number } | undefined

  constructor(options: DepotOptions) {
    this.#options = options
    this.#threads = new ChunkThreads(options.key.secret)
  }

  /** Starts what the first wake on this host would wait for. */
  prepare(): void {
    this.#threads.prepare()
  }

  get store(): ObjectStore {
    return this.#options.store
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#caching
    await this.#threads[Symbol.asyncDispose]()
  }

  /** The present period, by the clock of the store. */
  async period(): Promise<number> {
    const now = performance.now()
    if (this.#clock === undefined || now - this.#clock.askedMs > (this.#options.clockMs ?? CLOCK_MS)) {
      this.#clock = { askedMs: now, storeMs: await this.#options.store.nowMs() }
    }
    const { askedMs, storeMs } = this.#clock
    return Math.floor((storeMs + now - askedMs) / (this.#options.periodMs ?? DAY_MS))
  }

  /** Stores what a stream holds. Chunks that are there already are not sent again. */
  async storeStream(content: Readable, { chunkBytes = CHUNK_BYTES } = {}): Promise<Stored> {
    try {
      return await this.#storeChunks(content, chunkBytes)
    } finally {
      // A program that writes into it would keep this process alive.
      content.destroy()
    }
  }

  async #storeChunks(content: Readable, chunkBytes: number): Promise<Stored> {
    const period = await this.period()
    const chunks: string[] = []
    const sending = new Set<Promise<void>>()
    const total = { bytes: 0, sentBytes: 0 }
    let failure: unknown
    const plain = new BufferPool(chunkBytes)
    const sealed = new BufferPool(chunkBytes + SEALED_MORE_BYTES)
    for await (const chunk of inChunks(content, plain)) {
      const place = chunks.push('') - 1
      total.bytes += chunk.length
      const sent: Promise<void> = this.#put(chunk, period, { plain, sealed })
        .then(({ name, sentBytes }) => {
          chunks[place] = name
          total.sentBytes += sentBytes
        })
        .catch((error: unknown) => {
          failure ??= error
        })
        .finally(() => sending.delete(sent))
      sending.add(sent)
      if (sending.size >= IN_FLIGHT_MAX) await Promise.race(sending)
      if (failure !== undefined) break
    }
    await Promise.all(sending)
    if (failure !== undefined) throw failure
    return { chunks, ...total }
  }

  /** The content of these chunks, in order. Throws `snapshot_unusable` when one is missing or damaged. */
  async *load(chunks: readonly string[]): AsyncGenerator<Uint8Array> {
    const loading: Promise<Uint8Array>[] = []
    let next = 0
    const loadMore = () => {
      while (loading.length < IN_FLIGHT_MAX && next < chunks.length) {
        const chunk = this.loadChunk(chunks[next++] ?? '')
        // Awaited in order below; until then a rejection is not unhandled.
        chunk.catch(() => {})
        loading.push(chunk)
      }
    }
    for (loadMore(); loading.length > 0; loadMore()) yield (await loading.shift()) as Uint8Array
  }

  async loadChunk(name: string): Promise<Uint8Array> {
    const { store, cache } = this.#options
    if (!NAME.test(name)) throw lacking()
    const digest = digestOf(name)
    const cached = await cache?.find(name)
    if (cached !== undefined) {
      const chunk = await this.#threads.open(cached, digest).catch(() => undefined)
      if (chunk !== undefined) return chunk
      await cache?.remove(name)
    }
    const sealed = await store.find(chunkObject(name))
    if (sealed === undefined) throw lacking()
    const chunk = await this.#threads.open(sealed, digest)
    this.#addToCache(name, sealed)
    return chunk
  }

  /** One after the other, beside what callers wait for. What is too much for that is only missing later. */
  #addToCache(name: string, sealed: Uint8Array): void {
    const { cache } = this.#options
    if (cache === undefined || this.#cachingBytes > CACHING_MAX_BYTES) return
    this.#cachingBytes += sealed.length
    this.#caching = this.#caching
      .then(() => cache.add(name, sealed))
      .finally(() => {
        this.#cachingBytes -= sealed.length
      })
  }

  /** Stores a list, and returns its name. It replaces one of the same `base` and period. */
  async putList(base: string, list: unknown): Promise<string> {
    const { store, key } = this.#options
    const name = `${base}-${await this.period()}`
    const plain = await compress(Buffer.from(JSON.stringify(list)))
    if (plain.length <= CHUNK_BYTES) {
      await store.put(listObject(name), key.seal(plain, `list ${name}`))
      return name
    }
    const { chunks } = await this.storeStream(Readable.from([plain]))
    return await this.putList(base, { longList: chunks } satisfies LongList)
  }

  /** The name of a list of this `base` that a writer may rely on: one of the present period. */
  async findRecent(base: string): Promise<string | undefined> {
    const name = `${base}-${await this.period()}`
    return (await this.#options.store.has(listObject(name))) ? name : undefined
  }

  /** Undefined when there is none. `chunks`: of a list that is too long for one object. */
  async findList(name: string): Promise<{ list: unknown; chunks: readonly string[] } | undefined> {
    const { store, key } = this.#options
    if (!NAME.test(name)) return undefined
    const sealed = await store.find(listObject(name))
    if (sealed === undefined) return undefined
    const read = async (bytes: Uint8Array) => JSON.parse((await expand(bytes)).toString()) as unknown
    const list = await read(key.open(sealed, `list ${name}`))
    if (!isLongList(list)) return { list, chunks: [] }
    const pieces: Uint8Array[] = []
    for await (const piece of this.load(list.longList)) pieces.push(piece)
    return { list: await read(Buffer.concat(pieces)), chunks: list.longList }
  }

  /** Like `findList`. Throws `snapshot_unusable` when there is none. */
  async getList(name: string): Promise<unknown> {
    const found = await this.findList(name)
    if (found === undefined) throw lacking()
    return found.list
  }

  /** The buffers of the pools are given back when nothing can use them any more; after a failure they are dropped. */
  async #put(
    chunk: Uint8Array<ArrayBuffer>,
    period: number,
    pools: { plain: BufferPool; sealed: BufferPool },
  ): Promise<{ name: string; sentBytes: number }> {
    const { digest, content } = await this.#threads.name(chunk)
    const name = `${digest}-${period}`
    if (this.#known.has(name)) {
      pools.plain.give(content)
      return { name, sentBytes: 0 }
    }
    const { content: sealed, plain = content } = await this.#threads.seal(
      content,
      digest,
      pools.sealed.take(),
    )
    pools.plain.give(plain)
    const isNew = await this.#options.store.put(chunkObject(name), sealed, { keepsFirst: true })
    const { length } = sealed
    pools.sealed.give(sealed)
    if (this.#known.size >= KNOWN_MAX) this.#known.clear()
    this.#known.add(name)
    return { name, sentBytes: isNew ? length : 0 }
  }
}

interface LongList {
  readonly longList: readonly string[]
}

function isLongList(list: unknown): list is LongList {
  return typeof list === 'object' && list !== null && 'longList' in list
}

export function chunkObject(name: string): string {
  return `chunk-${name}`
}

export function listObject(name: string): string {
  return `list-${name}`
}

/** The period in which an object was written. */
export function periodOf(object: string): number {
  return Number(object.slice(object.lastIndexOf('-') + 1))
}

function digestOf(chunk: string): string {
  return chunk.slice(0, chunk.lastIndexOf('-'))
}

async function* inChunks(content: Readable, pool: BufferPool): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  let chunk = pool.take()
  let filled = 0
  for await (const piece of content as AsyncIterable<Buffer>) {
    for (let at = 0; at < piece.length; ) {
      const taken = Math.min(piece.length - at, chunk.length - filled)
      chunk.set(piece.subarray(at, at + taken), filled)
      at += taken
      filled += taken
      if (filled < chunk.length) continue
      yield chunk
      // The buffer is a thread's now.
      chunk = pool.take()
      filled = 0
    }
  }
  if (filled > 0) yield chunk.subarray(0, filled)
}

function lacking(): DormouseError {
  return new DormouseError(
    'snapshot_unusable',
    'The snapshot cannot be restored: the depot lacks a part of it.',
    {
      details: { reason: 'the depot lacks a part of it', damaged: true },
    },
  )
}
