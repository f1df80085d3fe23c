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
const OBJECTS = 'dormouse.depot.object'
const REQUEST_TIMEOUT_MS = 20_000
const WRONG_SEQUENCE = 10071
const NO_MESSAGE = 10037
/** Objects without their content are small. */
const LISTED_AT_ONCE = 1_000

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
      subjects: [`${OBJECTS}.*`],
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
      await this.#options.jetstream.publish(`${OBJECTS}.${name}`, content, options)
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
      .purge(STREAM, { filter: `${OBJECTS}.${name}` })
      .catch((error: unknown) => {
        throw explain(error)
      })
  }

  async *list(): AsyncGenerator<StoredObject> {
    const { jetstream, manager } = this.#options
    const { state } = await manager.streams.info(STREAM)
    if (state.messages === 0) return
    const consumer = await jetstream.consumers.get(STREAM, {
      filter_subjects: [`${OBJECTS}.*`],
      deliver_policy: DeliverPolicy.All,
      headers_only: true,
    })
    const messages = await consumer.consume({ max_messages: LISTED_AT_ONCE })
    for await (const message of messages) {
      const bytes = Number(message.headers?.get('Nats-Msg-Size') ?? 0)
      yield { name: message.subject.slice(OBJECTS.length + 1), bytes }
      // What is stored from now on is not asked for.
      if (message.info.pending === 0 || message.seq >= state.last_seq) break
    }
    await consumer.delete().catch(() => {})
  }

  async nowMs(): Promise<number> {
    const { ts } = (await this.#options.manager.streams.info(STREAM)) as { ts?: string }
    return ts === undefined ? Date.now() : Date.parse(ts)
  }

  async #get(name: string) {
    try {
      const found = await this.#options.manager.direct.getMessage(STREAM, {
        last_by_subj: `${OBJECTS}.${name}`,
      })
      return found ?? undefined
    } catch (error) {
      const { code, status } = error as { code?: unknown; status?: unknown }
      if (code === NO_MESSAGE || code === 404 || status === 404) return undefined
      throw explain(error)
    }
  }
}

function explain(error: unknown): unknown {
  if (error instanceof DormouseError) return error
  return new DormouseError('cluster_unavailable', 'The depot of the cluster does not answer.', {
    cause: error,
  })
}
