import type { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { deflateRaw, inflateRaw } from 'node:zlib'
import { DormouseError } from '@dormouse/contracts'
import { DiscardPolicy, type JetStreamClient, type JetStreamManager, StorageType } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import type { ClusterKey } from './cluster-key.ts'

const STREAM = 'dormouse-depot'
const CHUNKS = 'dormouse.depot.chunk'
const LISTS = 'dormouse.depot.list'
/** A message of NATS holds 1 MB by default: this leaves room for what cannot be compressed, and for headers. */
const CHUNK_BYTES = 960 * 1024
const IN_FLIGHT_MAX = 6
/** Chunks that this host knows to be there: 48 bytes each. */
const KNOWN_MAX = 500_000
const REQUEST_TIMEOUT_MS = 20_000
const WRONG_SEQUENCE = 10071
const NO_MESSAGE = 10037

const compress = promisify(deflateRaw)
const expand = promisify(inflateRaw)

export interface DepotOptions {
  readonly jetstream: JetStreamClient
  readonly manager: JetStreamManager
  readonly key: ClusterKey
  readonly replicas: number
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
 */
export class Depot {
  readonly #options: DepotOptions
  readonly #known = new Set<string>()

  private constructor(options: DepotOptions) {
    this.#options = options
  }

  static async open(options: DepotOptions): Promise<Depot> {
    await options.manager.streams.add({
      name: STREAM,
      subjects: [`${CHUNKS}.*`, `${LISTS}.*`],
      max_msgs_per_subject: 1,
      discard: DiscardPolicy.New,
      storage: StorageType.File,
      num_replicas: options.replicas,
      allow_direct: true,
    })
    return new Depot(options)
  }

  /** Stores what a stream holds. Chunks that are there already are not sent again. */
  async store(content: Readable): Promise<Stored> {
    const chunks: string[] = []
    const sending = new Set<Promise<void>>()
    const total = { bytes: 0, sentBytes: 0 }
    let failure: unknown
    for await (const chunk of inChunks(content)) {
      const name = this.#options.key.nameOf(chunk)
      chunks.push(name)
      total.bytes += chunk.length
      const sent: Promise<void> = this.#put(name, chunk)
        .then((bytes) => {
          total.sentBytes += bytes
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
    if (failure !== undefined) throw explain(failure)
    return { chunks, ...total }
  }

  /** The content of these chunks, in order. Throws `snapshot_unusable` when one is missing or damaged. */
  async *load(chunks: readonly string[]): AsyncGenerator<Buffer> {
    const loading: Promise<Buffer>[] = []
    let next = 0
    const loadMore = () => {
      while (loading.length < IN_FLIGHT_MAX && next < chunks.length) {
        const chunk = this.#get(chunks[next++] ?? '')
        // Awaited in order below; until then a rejection is not unhandled.
        chunk.catch(() => {})
        loading.push(chunk)
      }
    }
    for (loadMore(); loading.length > 0; loadMore()) yield (await loading.shift()) as Buffer
  }

  /** Stores a list under a name of the caller's own. A list never changes: a second one of this name is ignored. */
  async putList(name: string, list: unknown): Promise<void> {
    const plain = await compress(Buffer.from(JSON.stringify(list)))
    await this.#publish(`${LISTS}.${name}`, this.#options.key.seal(plain, `list ${name}`))
  }

  /** Undefined when there is none. */
  async findList(name: string): Promise<unknown> {
    const sealed = await this.#find(`${LISTS}.${name}`)
    if (sealed === undefined) return undefined
    return JSON.parse((await expand(this.#options.key.open(sealed, `list ${name}`))).toString())
  }

  async hasList(name: string): Promise<boolean> {
    return (await this.#find(`${LISTS}.${name}`)) !== undefined
  }

  /** Bytes that were sent: 0 when the chunk was there. */
  async #put(name: string, chunk: Buffer): Promise<number> {
    if (this.#known.has(name)) return 0
    const sealed = this.#options.key.seal(await compress(chunk, { level: 1 }), `chunk ${name}`)
    const isNew = await this.#publish(`${CHUNKS}.${name}`, sealed)
    if (this.#known.size >= KNOWN_MAX) this.#known.clear()
    this.#known.add(name)
    return isNew ? sealed.length : 0
  }

  async #get(name: string): Promise<Buffer> {
    const sealed = await this.#find(`${CHUNKS}.${name}`)
    if (sealed === undefined)
      throw new DormouseError(
        'snapshot_unusable',
        'The snapshot cannot be restored: the depot lacks a part of it.',
        {
          details: { reason: 'the depot lacks a part of it', damaged: true },
        },
      )
    const chunk = await expand(this.#options.key.open(sealed, `chunk ${name}`))
    if (this.#options.key.nameOf(chunk) === name) return chunk
    throw new DormouseError(
      'snapshot_unusable',
      'The snapshot cannot be restored: the depot has damaged a part of it.',
    )
  }

  /** False when there was one already. */
  async #publish(subject: string, payload: Uint8Array): Promise<boolean> {
    const expected = headers()
    expected.set('Nats-Expected-Last-Subject-Sequence', '0')
    try {
      await this.#options.jetstream.publish(subject, payload, {
        headers: expected,
        timeout: REQUEST_TIMEOUT_MS,
      })
      return true
    } catch (error) {
      if ((error as { code?: unknown }).code === WRONG_SEQUENCE) return false
      throw explain(error)
    }
  }

  async #find(subject: string): Promise<Uint8Array | undefined> {
    try {
      const message = await this.#options.manager.direct.getMessage(STREAM, { last_by_subj: subject })
      return message?.data
    } catch (error) {
      const { code, status } = error as { code?: unknown; status?: unknown }
      if (code === NO_MESSAGE || code === 404 || status === 404) return undefined
      throw explain(error)
    }
  }
}

async function* inChunks(content: Readable): AsyncGenerator<Buffer> {
  let held: Buffer[] = []
  let bytes = 0
  for await (const piece of content as AsyncIterable<Buffer>) {
    held.push(piece)
    bytes += piece.length
    while (bytes >= CHUNK_BYTES) {
      const all = Buffer.concat(held)
      yield all.subarray(0, CHUNK_BYTES)
      held = [all.subarray(CHUNK_BYTES)]
      bytes -= CHUNK_BYTES
    }
  }
  if (bytes > 0) yield Buffer.concat(held)
}

function explain(error: unknown): unknown {
  if (error instanceof DormouseError) return error
  return new DormouseError('cluster_unavailable', 'The depot of the cluster does not answer.', {
    cause: error,
  })
}
