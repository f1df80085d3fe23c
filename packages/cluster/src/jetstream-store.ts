import { DormouseError } from '@dormouse/contracts'
import {
  DeliverPolicy,
  DiscardPolicy,
  type JetStreamClient,
  type JetStreamManager,
  StorageType,
} from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import type { ObjectStore, StoredObject } from './object-store.ts'

const STREAM = 'dormouse-depot'
export const DEPOT_OBJECTS = 'dormouse.depot.object'
/** An object that is only written to read its time. */
const CLOCK = 'clock'
const REQUEST_TIMEOUT_MS = 20_000
const WRONG_SEQUENCE = 10071
/** Objects without their content are small. */
const LISTED_AT_ONCE = 1_000
const LIST_TIMEOUT_MS = 5_000

export interface JetStreamStoreOptions {
  readonly jetstream: JetStreamClient
  readonly manager: JetStreamManager
  readonly replicas: number
}

/** Objects as messages of a stream, the last of each subject. A message holds 1 MB by default. */
export class JetStreamStore implements ObjectStore {
  readonly #options: JetStreamStoreOptions

  private constructor(options: JetStreamStoreOptions) {
    this.#options = options
  }

  static async open(options: JetStreamStoreOptions): Promise<JetStreamStore> {
    await options.manager.streams.add({
      name: STREAM,
      subjects: [`${DEPOT_OBJECTS}.*`],
      max_msgs_per_subject: 1,
      discard: DiscardPolicy.Old,
      storage: StorageType.File,
      num_replicas: options.replicas,
      allow_direct: true,
    })
    return new JetStreamStore(options)
  }

  async put(name: string, content: Uint8Array, { keepsFirst = false } = {}): Promise<boolean> {
    const expected = headers()
    if (keepsFirst) expected.set('Nats-Expected-Last-Subject-Sequence', '0')
    try {
      const options = { headers: expected, timeout: REQUEST_TIMEOUT_MS }
      await this.#options.jetstream.publish(`${DEPOT_OBJECTS}.${name}`, content, options)
      return true
    } catch (error) {
      if ((error as { code?: unknown }).code === WRONG_SEQUENCE) return false
      throw explain(error)
    }
  }

  async find(name: string): Promise<Uint8Array | undefined> {
    return (await this.#get(name))?.data
  }

  async has(name: string): Promise<boolean> {
    return (await this.#get(name)) !== undefined
  }

  async remove(name: string): Promise<void> {
    await this.#options.manager.streams
      .purge(STREAM, { filter: `${DEPOT_OBJECTS}.${name}` })
      .catch((error: unknown) => {
        throw explain(error)
      })
  }

  async *list(): AsyncGenerator<StoredObject> {
    const { jetstream, manager } = this.#options
    const { state } = await manager.streams.info(STREAM)
    if (state.messages === 0) return
    const consumer = await jetstream.consumers.get(STREAM, {
      deliver_policy: DeliverPolicy.All,
      headers_only: true,
    })
    for (let isOver = false; !isOver; ) {
      // Nothing comes when the rest was removed meanwhile.
      isOver = true
      const messages = await consumer.fetch({ max_messages: LISTED_AT_ONCE, expires: LIST_TIMEOUT_MS })
      for await (const message of messages) {
        const bytes = Number(message.headers?.get('Nats-Msg-Size') ?? 0)
        yield { name: message.subject.slice(DEPOT_OBJECTS.length + 1), bytes }
        // What is stored from now on is not asked for.
        isOver = message.info.pending === 0 || message.seq >= state.last_seq
        if (isOver) break
      }
    }
    await consumer.delete().catch(() => {})
  }

  /** The time of a message is the server's. */
  async nowMs(): Promise<number> {
    await this.put(CLOCK, new Uint8Array())
    const written = await this.#get(CLOCK)
    if (written === undefined) throw explain(new Error('the message is not there'))
    return written.time.getTime()
  }

  async #get(name: string) {
    try {
      const found = await this.#options.manager.direct.getMessage(STREAM, {
        last_by_subj: `${DEPOT_OBJECTS}.${name}`,
      })
      if (found !== null) return found
      await this.#requireMissing(name)
      return undefined
    } catch (error) {
      throw explain(error)
    }
  }

  /**
   * Any server answers a read, also one that lags behind the others. Only the leader knows that an object is not there:
   * without it, a snapshot would be called damaged, and what a list names would be collected.
   */
  async #requireMissing(name: string): Promise<void> {
    const subject = `${DEPOT_OBJECTS}.${name}`
    const { state } = await this.#options.manager.streams.info(STREAM, { subjects_filter: subject })
    if (Object.keys(state.subjects ?? {}).length > 0) throw new Error('a server does not have the object yet')
  }
}

function explain(error: unknown): unknown {
  if (error instanceof DormouseError) return error
  return new DormouseError('cluster_unavailable', 'The depot of the cluster does not answer.', {
    cause: error,
  })
}
