import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { DormouseError } from '@dormouse/contracts'

const THREADS = Math.min(4, Math.max(1, availableParallelism()))

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
}

export type FromChunkThread =
  | { readonly id: number; readonly content: Uint8Array; readonly digest: string }
  | { readonly id: number; readonly error: string }

interface Waiting {
  readonly resolve: (answer: { content: Uint8Array; digest: string }) => void
  readonly reject: (error: unknown) => void
}

/** Threads that name, compress and encrypt chunks, so that the server answers requests meanwhile. */
export class ChunkThreads implements AsyncDisposable {
  readonly #secret: Uint8Array
  readonly #workers: Worker[] = []
  readonly #waiting = new Map<number, Waiting>()
  #next = 0

  constructor(secret: Uint8Array) {
    this.#secret = secret
  }

  /** Starts the threads, so that the first chunk does not wait for them. */
  prepare(): void {
    for (let index = 0; index < THREADS; index += 1) this.#worker(index)
  }

  /** Takes the buffer of `content`; the answer has it again. */
  async name(content: Uint8Array<ArrayBuffer>): Promise<{ content: Uint8Array; digest: string }> {
    return this.#run('name', content, '')
  }

  /** Takes the buffer of `content`. */
  async seal(content: Uint8Array, digest: string): Promise<Uint8Array> {
    return (await this.#run('seal', exclusive(content), digest)).content
  }

  /** Throws `snapshot_unusable` when it was changed. */
  async open(sealed: Uint8Array, digest: string): Promise<Uint8Array> {
    return (await this.#run('open', own(sealed), digest)).content
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#workers.splice(0).map((worker) => worker.terminate()))
  }

  #run(op: ToChunkThread['op'], content: Uint8Array<ArrayBuffer>, digest: string) {
    return new Promise<{ content: Uint8Array; digest: string }>((resolve, reject) => {
      const id = this.#next++
      this.#waiting.set(id, { resolve, reject })
      const message: ToChunkThread = { id, op, content, digest }
      const worker = this.#worker(id)
      worker.ref()
      worker.postMessage(message, [content.buffer])
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

/** A copy: a buffer that is sent to a thread is gone here. */
function own(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes)
}

/** The bytes themselves when they have their buffer alone, otherwise a copy. */
export function exclusive(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const isAlone = bytes.byteLength === bytes.buffer.byteLength && bytes.buffer instanceof ArrayBuffer
  return isAlone ? (bytes as Uint8Array<ArrayBuffer>) : own(bytes)
}
