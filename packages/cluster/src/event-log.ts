import { DiscardPolicy, type JetStreamClient, type JetStreamManager } from '@nats-io/jetstream'
import type { ClusterKey } from './cluster-key.ts'
import { FollowedStream } from './followed-stream.ts'

const STREAM = 'dormouse-events'
const SUBJECT = 'dormouse.events'
/** What a reader that lost its connection can catch up on. */
const EVENTS_MAX = 20_000
const BYTES_MAX = 256 * 1024 ** 2
const PUBLISH_TIMEOUT_MS = 4_000
/** NATS drops a second message with the same id within this time. */
const SAME_WITHIN_NS = 120 * 1_000_000_000
/** Numbers of events start at the time of the stream's creation in microseconds, as those of a lone server do. */
const SEQ_PER_MS = 1_000

export interface ClusterEvent {
  /** Grows over all hosts. */
  readonly seq: number
  /** The host that published it. */
  readonly host: string
  readonly event: unknown
}

export interface EventLogOptions {
  readonly jetstream: JetStreamClient
  readonly manager: JetStreamManager
  readonly key: ClusterKey
  readonly replicas: number
  readonly hostId: string
}

/** The events of all hosts, in one order. */
export class EventLog implements AsyncDisposable {
  readonly #options: EventLogOptions
  /** Every number of this log is larger. */
  readonly baseSeq: number
  #followed: FollowedStream | undefined

  private constructor(options: EventLogOptions, base: number) {
    this.#options = options
    this.baseSeq = base
  }

  static async open(options: EventLogOptions): Promise<EventLog> {
    const { manager, replicas } = options
    await manager.streams.add({
      name: STREAM,
      subjects: [SUBJECT],
      max_msgs: EVENTS_MAX,
      max_bytes: BYTES_MAX,
      discard: DiscardPolicy.Old,
      duplicate_window: SAME_WITHIN_NS,
      num_replicas: replicas,
      allow_direct: true,
    })
    const { created } = await manager.streams.info(STREAM)
    return new EventLog(options, Math.floor(Date.parse(created)) * SEQ_PER_MS)
  }

  /** The same `id` twice is one event. */
  async publish(event: unknown, id: string): Promise<void> {
    const { jetstream, key, hostId } = this.#options
    const value = key.seal(JSON.stringify({ host: hostId, event }), STREAM)
    await jetstream.publish(SUBJECT, value, { msgID: `${hostId}-${id}`, timeout: PUBLISH_TIMEOUT_MS })
  }

  /** The number before the newest `count` events, and the number of the last one. */
  async place(count: number): Promise<{ beforeSeq: number; lastSeq: number }> {
    const { state } = await this.#options.manager.streams.info(STREAM)
    const first = Math.max(state.first_seq, state.last_seq - count + 1, 1)
    return { beforeSeq: this.baseSeq + first - 1, lastSeq: this.baseSeq + state.last_seq }
  }

  /** Tells every event after a place. Resolves when those up to `lastSeq` are told. Throws `cluster_unavailable`. */
  async follow(
    { beforeSeq, lastSeq }: { beforeSeq: number; lastSeq: number },
    onEvent: (event: ClusterEvent) => void,
  ): Promise<void> {
    const { jetstream, manager, key } = this.#options
    this.#followed = await FollowedStream.start({
      ...{ jetstream, manager, stream: STREAM, subject: SUBJECT, afterSeq: beforeSeq - this.baseSeq },
      onMessage: (message) => {
        const seq = this.baseSeq + message.seq
        try {
          const { host, event } = JSON.parse(key.open(message.data, STREAM).toString()) as ClusterEvent
          onEvent({ seq, host, event })
        } catch {
          // Anything that may write to NATS can write an event that no host has made. Its number is missing here.
        }
      },
    })
    await this.#followed.tells(lastSeq - this.baseSeq)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#followed?.[Symbol.asyncDispose]()
  }
}
