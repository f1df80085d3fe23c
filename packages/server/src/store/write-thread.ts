import { Worker } from 'node:worker_threads'
import { DormouseError } from '@dormouse/contracts'
import { toCodedError } from './sqlite-error.ts'
import type { WriteAnswer, WriteFailure, WriteRequest, WriteStep, WriteThreadData } from './write-messages.ts'

// Node 20 cannot load TypeScript in a thread: tests that run on the sources use the built thread.
const MAIN = new URL(
  import.meta.url.endsWith('.ts') ? '../../dist/store/write-thread-main.js' : './write-thread-main.js',
  import.meta.url,
)

interface Pending {
  readonly resolve: (changes: number) => void
  readonly reject: (error: unknown) => void
}

type Request<T = WriteRequest> = T extends unknown ? Omit<T, 'request'> : never

/**
 * Writes to a database on a second thread, in the order of the calls, so that large and slow writes do not block the
 * event loop. The thread starts with the first call, and again after it has died.
 */
export class WriteThread implements AsyncDisposable {
  readonly #data: WriteThreadData
  readonly #name: string
  readonly #pending = new Map<number, Pending>()
  #worker: Worker | undefined
  #nextRequest = 0
  #isClosed = false

  constructor({ name, ...data }: WriteThreadData & { readonly name: string }) {
    this.#name = name
    this.#data = data
  }

  get isIdle(): boolean {
    return this.#pending.size === 0
  }

  /** All steps in one transaction. Returns how many rows the last step changed. */
  write(steps: readonly WriteStep[]): Promise<number> {
    return this.#ask({ type: 'write', steps })
  }

  /** Returns free pages at the end of the file to the file system, unless a reader still needs them. */
  async checkpoint(): Promise<void> {
    await this.#ask({ type: 'checkpoint' })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const worker = this.#worker
    if (this.#isClosed) return
    // A thread that died has nothing left to close; callers that waited for its writes got the error.
    const closed = worker === undefined ? undefined : this.#ask({ type: 'close' }).catch(() => {})
    this.#isClosed = true
    await closed
    await worker?.terminate()
  }

  #ask(message: Request): Promise<number> {
    return new Promise((resolve, reject) => {
      if (this.#isClosed) throw new DormouseError('internal', `The thread of ${this.#name} is closed.`)
      const worker = this.#worker ?? this.#start()
      const request = this.#nextRequest++
      this.#pending.set(request, { resolve, reject })
      // An idle thread does not keep the process alive; one that writes does.
      worker.ref()
      worker.postMessage({ ...message, request } satisfies WriteRequest)
    })
  }

  #start(): Worker {
    const worker = new Worker(MAIN, { workerData: this.#data, name: this.#name })
    let cause = new Error('the thread has ended')
    worker.on('error', (error) => {
      cause = error as Error
    })
    worker.on('message', (answer: WriteAnswer) => this.#settle(answer))
    worker.once('exit', () => {
      if (this.#worker === worker) this.#worker = undefined
      const pending = [...this.#pending.values()]
      this.#pending.clear()
      for (const { reject } of pending)
        reject(new DormouseError('internal', `The thread of ${this.#name} died.`, { cause }))
    })
    this.#worker = worker
    return worker
  }

  #settle(answer: WriteAnswer): void {
    const pending = this.#pending.get(answer.request)
    this.#pending.delete(answer.request)
    if (this.#pending.size === 0) this.#worker?.unref()
    if (answer.type === 'done') pending?.resolve(answer.changes)
    else pending?.reject(toCodedError(errorOf(answer.error), this.#name))
  }
}

function errorOf({ message, errcode }: WriteFailure): Error {
  return Object.assign(new Error(message), errcode === undefined ? {} : { errcode })
}
