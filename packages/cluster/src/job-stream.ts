import { DormouseError } from '@dormouse/contracts'
import {
  DiscardPolicy,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
} from '@nats-io/jetstream'
import { z } from 'zod'
import type { ClusterKey } from './cluster-key.ts'
import { FollowedStream } from './followed-stream.ts'

const STREAM = 'dormouse-jobs'
const PREFIX = 'dormouse.jobs.'
/** NATS takes messages of up to a megabyte; a piece becomes a third larger on its way. */
const PIECE_BYTES = 512 * 1024
const PUBLISH_TIMEOUT_MS = 4_000
/** A publish that was not answered is sent again with the same id, which NATS stores once. */
const TRIES_MAX = 3
const SAME_WITHIN_NS = 120 * 1_000_000_000
/** JetStream's code for "wrong last sequence". */
const WRONG_SEQUENCE = 10071

/** A command, or a piece of a large one. */
export interface JobMessage {
  readonly seq: number
  readonly jobId: string
  /** The same for all pieces of a command. */
  readonly command: string
  readonly piece: number
  readonly pieces: number
  /** Base64. */
  readonly content: string
  /** When NATS stored it. */
  readonly atMs: number
}

export interface JobStreamOptions {
  readonly jetstream: JetStreamClient
  readonly manager: JetStreamManager
  readonly key: ClusterKey
  readonly replicas: number
}

/** Commands for the jobs of a cluster, in one order. Those of one job have a subject of their own. */
export class JobStream implements AsyncDisposable {
  /** Identifies the stream: one that was made anew has another id. */
  readonly id: string
  readonly #options: JobStreamOptions
  #followed: FollowedStream | undefined

  private constructor(options: JobStreamOptions, id: string) {
    this.#options = options
    this.id = id
  }

  static async open(options: JobStreamOptions): Promise<JobStream> {
    const { manager, replicas } = options
    await manager.streams.add({
      name: STREAM,
      subjects: [`${PREFIX}*`],
      discard: DiscardPolicy.New,
      duplicate_window: SAME_WITHIN_NS,
      num_replicas: replicas,
      allow_direct: true,
    })
    const { created } = await manager.streams.info(STREAM)
    return new JobStream(options, created)
  }

  /**
   * The highest number that was given, the number of the newest message that is still there, and the jobs that it has
   * messages of.
   */
  async info(): Promise<{ lastSeq: number; newestSeq: number; jobs: ReadonlySet<string> }> {
    const { streams } = this.#options.manager
    const { state } = await streams.info(STREAM, { subjects_filter: `${PREFIX}*` })
    const jobs = Object.keys(state.subjects ?? {}).map((subject) => subject.slice(PREFIX.length))
    const newest =
      state.messages > 0 ? await streams.getMessage(STREAM, { last_by_subj: `${PREFIX}*` }) : null
    return { lastSeq: state.last_seq, newestSeq: newest?.seq ?? 0, jobs: new Set(jobs) }
  }

  /**
   * Appends a command. `isFirst`: only if the stream has nothing of the job; false if it has. Throws
   * `cluster_unavailable` when it is not known whether the command was stored.
   */
  async append(
    { jobId, command, text }: { jobId: string; command: string; text: string },
    { isFirst = false } = {},
  ): Promise<boolean> {
    const bytes = Buffer.from(text)
    const pieces = Math.ceil(bytes.length / PIECE_BYTES)
    for (let piece = 0; piece < pieces; piece += 1) {
      const content = bytes.subarray(piece * PIECE_BYTES, (piece + 1) * PIECE_BYTES).toString('base64')
      const value = JSON.stringify({ command, piece, pieces, content })
      const isExpected = isFirst && piece === 0
      if (!(await this.#publish(jobId, value, { id: `${command}.${piece}`, isExpected }))) return false
    }
    return true
  }

  async #publish(jobId: string, value: string, { id, isExpected }: { id: string; isExpected: boolean }) {
    const { jetstream, key } = this.#options
    const sealed = key.seal(value, PREFIX + jobId)
    for (let tries = 1; ; tries += 1) {
      try {
        await jetstream.publish(PREFIX + jobId, sealed, {
          ...{ msgID: id, timeout: PUBLISH_TIMEOUT_MS },
          ...(isExpected && { expect: { lastSubjectSequence: 0 } }),
        })
        return true
      } catch (cause) {
        if (cause instanceof JetStreamApiError && cause.code === WRONG_SEQUENCE) return false
        if (tries < TRIES_MAX) continue
        throw new DormouseError('cluster_unavailable', 'NATS did not take a change of a job.', { cause })
      }
    }
  }

  /**
   * Tells every message after a place, one after the other. Resolves when those up to `lastSeq` are told. Throws
   * `cluster_unavailable`. `onMessage` must not throw.
   */
  async follow(
    { afterSeq, lastSeq }: { afterSeq: number; lastSeq: number },
    onMessage: (message: JobMessage) => Promise<void>,
  ): Promise<void> {
    const { jetstream, manager, key } = this.#options
    this.#followed = await FollowedStream.start({
      ...{ jetstream, manager, stream: STREAM, subject: `${PREFIX}*`, afterSeq },
      onMessage: async ({ subject, data, seq, timestamp }) => {
        const where = { seq, jobId: subject.slice(PREFIX.length), atMs: Date.parse(timestamp) }
        await onMessage({ ...contentOf(key, subject, data), ...where })
      },
    })
    await this.#followed.tells(lastSeq)
  }

  /** Removes all messages of a job. */
  async purge(jobId: string): Promise<void> {
    await this.#options.manager.streams.purge(STREAM, { filter: PREFIX + jobId })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#followed?.[Symbol.asyncDispose]()
  }
}

const contentSchema = z.object({
  command: z.string(),
  piece: z.int().nonnegative(),
  pieces: z.int().positive(),
  content: z.string(),
})

/** A message that no host can read is empty: all of them leave it out. */
function contentOf(key: ClusterKey, subject: string, data: Uint8Array): z.output<typeof contentSchema> {
  try {
    return contentSchema.parse(JSON.parse(key.open(data, subject).toString()))
  } catch {
    return { command: '', piece: 0, pieces: 1, content: '' }
  }
}
