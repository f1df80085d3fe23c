import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError } from '@dormouse/contracts'
import {
  type ConsumerMessages,
  DeliverPolicy,
  type JetStreamClient,
  type JetStreamManager,
  type JsMsg,
} from '@nats-io/jetstream'

export interface FollowStream {
  readonly jetstream: Pick<JetStreamClient, 'consumers'>
  readonly manager: Pick<JetStreamManager, 'streams'>
  readonly stream: string
  /** All subjects of the stream. */
  readonly subject: string
  /** The first message that is told is the one behind this number. */
  readonly afterSeq: number
  /** Must not throw. No other message is told meanwhile. */
  readonly onMessage: (message: JsMsg) => Promise<void> | void
  /** How long nothing is heard before NATS is asked whether there is anything. */
  readonly silentMs?: number
}

const SILENT_MS = 5_000
const RETRY_MS = 1_000
/** Silences after which a host that starts gives up. */
const SILENCES_MAX = 6

/**
 * Tells every message of a stream once, in order. NATS keeps the place of a reader on one server only: when that server
 * is gone, a reader may hear nothing any more, without an error. So a reader that hears nothing of messages that are
 * there is replaced by another one, which begins behind the last message that was told.
 */
export class FollowedStream implements AsyncDisposable {
  readonly #options: FollowStream
  readonly #timer: NodeJS.Timeout
  #messages: ConsumerMessages | undefined
  #toldSeq: number
  /** Of a message that was there at the last look, and was not told. */
  #missedSeq = 0
  #heardMs = performance.now()
  #isTelling = false
  #telling: Promise<void> = Promise.resolve()
  #renewing: Promise<void> | undefined
  #isClosed = false
  readonly #waiting = new Set<{ seq: number; resolve: () => void }>()

  private constructor(options: FollowStream) {
    this.#options = options
    this.#toldSeq = options.afterSeq
    this.#timer = setInterval(() => void this.#look().catch(() => {}), options.silentMs ?? SILENT_MS).unref()
  }

  static async start(options: FollowStream): Promise<FollowedStream> {
    const followed = new FollowedStream(options)
    try {
      await followed.#renew()
      return followed
    } catch (error) {
      await followed[Symbol.asyncDispose]()
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    await this.#messages?.close()
  }

  /**
   * Resolves when the messages up to this one are told, or NATS has no newer one than was told: some may have been removed.
   * Throws `cluster_unavailable` after a long silence: a host that starts must not wait for that without an end.
   */
  async tells(seq: number): Promise<void> {
    if (this.#toldSeq >= seq) return
    const { silentMs = SILENT_MS, stream } = this.#options
    const isTold = new Promise<true>((resolve) => {
      this.#waiting.add({ seq, resolve: () => resolve(true) })
    })
    const stop = new AbortController()
    try {
      for (;;) {
        const late = sleep(silentMs, false, { signal: stop.signal })
        late.catch(() => {})
        if (await Promise.race([isTold, late])) return
        if (!this.#isTelling && performance.now() - this.#heardMs > SILENCES_MAX * silentMs)
          throw notTold(stream)
      }
    } finally {
      stop.abort()
    }
  }

  #renew(): Promise<void> {
    this.#renewing ??= this.#begin().finally(() => {
      this.#renewing = undefined
    })
    return this.#renewing
  }

  async #begin(): Promise<void> {
    const { jetstream, stream } = this.#options
    const consumer = await jetstream.consumers.get(stream, {
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: this.#toldSeq + 1,
    })
    const messages = await consumer.consume()
    const before = this.#messages
    this.#messages = messages
    void before?.close()
    if (this.#isClosed) await messages.close()
    else void this.#read(messages)
  }

  async #read(messages: ConsumerMessages): Promise<void> {
    // Another reader may have taken its place.
    const isCurrent = () => !this.#isClosed && messages === this.#messages
    try {
      for await (const message of messages) {
        if (!isCurrent()) return
        await this.#tell(message)
      }
    } catch {
      // The client of NATS gives up a reader that it could not begin again for long.
    }
    while (isCurrent()) {
      await sleep(RETRY_MS, undefined, { ref: false })
      if (isCurrent()) await this.#renew().catch(() => {})
    }
  }

  /** In turns: the reader before may still tell a message that this one has, too. */
  async #tell(message: JsMsg): Promise<void> {
    const telling = this.#telling.then(async () => {
      if (this.#isClosed || message.seq <= this.#toldSeq) return
      this.#isTelling = true
      try {
        await this.#options.onMessage(message)
      } finally {
        this.#isTelling = false
        this.#toldSeq = message.seq
        this.#heardMs = performance.now()
        this.#resolve(message.seq)
      }
    })
    this.#telling = telling.catch(() => {})
    await telling
  }

  async #look(): Promise<void> {
    const { manager, stream, subject, silentMs = SILENT_MS } = this.#options
    if (this.#isTelling || performance.now() - this.#heardMs < silentMs) return
    const newest = await manager.streams.getMessage(stream, { last_by_subj: subject })
    if (this.#isTelling || this.#isClosed) return
    // At the first look it may just be on its way.
    const isMissed = this.#missedSeq > this.#toldSeq
    this.#missedSeq = newest?.seq ?? 0
    if (this.#missedSeq <= this.#toldSeq) this.#resolve(Number.POSITIVE_INFINITY)
    else if (isMissed) await this.#renew()
  }

  #resolve(seq: number): void {
    for (const one of this.#waiting) {
      if (one.seq > seq) continue
      this.#waiting.delete(one)
      one.resolve()
    }
  }
}

function notTold(stream: string): DormouseError {
  return new DormouseError('cluster_unavailable', `NATS does not tell all that the stream ${stream} holds.`, {
    hint: 'Start this host again. If that does not help, see "When a disk of NATS is full" in docs/guides/cluster.md.',
    details: { retryAfterMs: 1_000 },
  })
}
