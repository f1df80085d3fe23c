import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { DormouseError } from '@dormouse/contracts'

const THREADS = Math.min(4, Math.max(1, availableParallelism()))

/** Less than what Node leaves of a pool beside the largest buffer that it takes from one. */
const SHARED_MAX_BYTES = 64

// Node cannot load TypeScript in a thread, so tests that run from the sources need the built thread.
const MAIN = new URL(
  import.meta.url.endsWith('.ts') ? '../dist/chunk-thread.js' : './chunk-thread.js',
  import.meta.url,
)

export interface ToChunkThread {
  readonly id: number
  readonly op: 'name' | 'seal' | 'open'
  readonly content: Uint8Array<ArrayBuffer>
  /** Empty while it is not known. */
  readonly digest: string
  /** Of `seal`: where the result goes. */
  readonly out?: Uint8Array<ArrayBuffer> | undefined
}

interface Done {
  readonly content: Uint8Array<ArrayBuffer>
  readonly digest: string
  /** Of `seal`: what was sealed, whose memory can be used again. */
  readonly plain?: Uint8Array<ArrayBuffer>
}

export type FromChunkThread =
  | (Done & { readonly id: number })
  | { readonly id: number; readonly error: string }

interface Waiting {
  readonly resolve: (answer: Done) => void
  readonly reject: (error: unknown) => void
}

/** Threads that name, compress and encrypt chunks, so that the server answers requests meanwhile. */
export class ChunkThreads implements AsyncDisposable {
  readonly #secret: Uint8Array
  readonly #workers: Worker[] = []
  readonly #waiting = new Map<number, Waiting>()
  #next = 0
  #isClosed = false

  constructor(secret: Uint8Array) {
    this.#secret = secret
  }

  /** Starts the threads, so that the first chunk does not wait for them. */
  prepare(): void {
    for (let index = 0; index < THREADS; index += 1) this.#worker(index)
  }

  /** Takes the buffer of `content`; the answer has it again. */
  name(content: Uint8Array<ArrayBuffer>): Promise<Done> {
    return this.#run({ op: 'name', content, digest: '' })
  }

  /** Takes the buffers of `content` and `out`; the answer has them again. `out` has `SEALED_MORE_BYTES` more. */
  seal(content: Uint8Array<ArrayBuffer>, digest: string, out: Uint8Array<ArrayBuffer>): Promise<Done> {
    return this.#run({ op: 'seal', content, digest, out })
  }

  /** Throws `snapshot_unusable` when it was changed. */
  async open(sealed: Uint8Array, digest: string): Promise<Uint8Array> {
    return (await this.#run({ op: 'open', content: own(sealed), digest })).content
  }

  /** What is under way fails. Otherwise an upload, and the program that reads for it, would wait without an end. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    for (const { reject } of this.#waiting.values()) reject(closed())
    this.#waiting.clear()
    await Promise.all(this.#workers.splice(0).map((worker) => worker.terminate()))
  }

  #run(work: Omit<ToChunkThread, 'id'>): Promise<Done> {
    if (this.#isClosed) return Promise.reject(closed())
    return new Promise<Done>((resolve, reject) => {
      const id = this.#next++
      this.#waiting.set(id, { resolve, reject })
      const worker = this.#worker(id)
      worker.ref()
      const { content, out } = work
      worker.postMessage({ id, ...work }, [content.buffer, ...(out === undefined ? [] : [out.buffer])])
    })
  }

  #worker(id: number): Worker {
    const index = id % THREADS
    const worker = this.#workers[index] ?? this.#start()
    this.#workers[index] = worker
    return worker
  }

  #start(): Worker {
    const worker = new Worker(MAIN, { workerData: this.#secret, name: 'chunks', execArgv: [] })
    worker.unref()
    worker.on('message', (message: FromChunkThread) => this.#answer(message))
    worker.on('error', (cause) => {
      for (const { reject } of this.#waiting.values()) reject(cause)
      this.#waiting.clear()
      this.#workers.splice(0)
    })
    return worker
  }

  #answer(message: FromChunkThread): void {
    const waiting = this.#waiting.get(message.id)
    this.#waiting.delete(message.id)
    if (this.#waiting.size === 0) for (const worker of this.#workers) worker?.unref()
    if ('error' in message)
      waiting?.reject(
        new DormouseError(
          'snapshot_unusable',
          'The snapshot cannot be restored: the depot has damaged a part of it.',
          {
            details: { reason: message.error, damaged: true },
          },
        ),
      )
    else waiting?.resolve(message)
  }
}

function closed(): DormouseError {
  return new DormouseError('cluster_unavailable', 'This host is leaving the cluster.')
}

/** A copy: a buffer that is sent to a thread is gone here. */
function own(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes)
}

/** The bytes themselves when their buffer has hardly anything else, otherwise a copy. */
export function exclusive(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const isAlone =
    bytes.buffer.byteLength - bytes.byteLength <= SHARED_MAX_BYTES && bytes.buffer instanceof ArrayBuffer
  return isAlone ? (bytes as Uint8Array<ArrayBuffer>) : own(bytes)
}
