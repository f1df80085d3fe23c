import { Worker } from 'node:worker_threads'
import { settledWithin } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import { WORKER_CLOSE_TIMEOUT_MS } from '../limits.ts'
import type { EgressListeners } from './egress-listeners.ts'
import type { EgressOptions } from './egress-options.ts'
import type { FromWorker, ToWorker } from './messages.ts'

export interface WorkerThreadOptions extends EgressListeners {
  readonly options: EgressOptions
  /** The thread died. Its sockets are closed, and pending requests were rejected with `WorkerDied`. */
  readonly onDied: (cause: Error) => void
}

export class WorkerDied extends Error {}

interface Pending {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
}

/** A request without its number. */
type Request<T = ToWorker> = T extends { readonly request: number } ? Omit<T, 'request'> : never

// Node cannot load TypeScript, so tests that run on the sources need the thread to be built. They also run with the
// condition that resolves our packages to sources, which the thread must not inherit: hence the empty `execArgv`.
const MAIN = new URL(
  import.meta.url.endsWith('.ts') ? '../../dist/worker/main.js' : './main.js',
  import.meta.url,
)

/** The main thread's end of one worker thread, from start to end. */
export class WorkerThread {
  readonly #worker: Worker
  readonly #pending = new Map<number, Pending>()
  readonly #exited: Promise<void>
  #nextRequest = 0
  #isClosing = false
  #died: WorkerDied | undefined

  private constructor(
    { options, onDenial, onFailedLookup, onDataAsleep, onLost, onDied }: WorkerThreadOptions,
    onReady: () => void,
  ) {
    this.#worker = new Worker(MAIN, {
      workerData: options,
      name: 'egress',
      execArgv: [],
      trackUnmanagedFds: false,
    })
    let cause = new Error('the thread ended')
    this.#worker.on('error', (error) => {
      cause = error
    })
    this.#worker.on('message', (message: FromWorker) => {
      if (message.type === 'ready') onReady()
      else if (message.type === 'denial') onDenial(message.denial)
      else if (message.type === 'failed-lookup') onFailedLookup(message.failed)
      else if (message.type === 'data-asleep') onDataAsleep(message.sandboxId)
      else if (message.type === 'lost') onLost(message.sandboxId, message.to)
      else this.#settle(message)
    })
    this.#exited = new Promise((resolve) => {
      this.#worker.once('exit', () => {
        this.#died = new WorkerDied(cause.message, { cause })
        for (const { reject } of this.#pending.values()) reject(this.#died)
        this.#pending.clear()
        resolve()
        if (!this.#isClosing) onDied(cause)
      })
    })
  }

  /** Resolves when the thread is ready for requests. */
  static async start(options: WorkerThreadOptions): Promise<WorkerThread> {
    const thread = await new Promise<WorkerThread>((resolve, reject) => {
      const starting = new WorkerThread(
        {
          ...options,
          onDied: (cause) => {
            options.onDied(cause)
            reject(cause)
          },
        },
        () => resolve(starting),
      )
    })
    // An idle thread does not keep the process alive; a busy one does.
    thread.#worker.unref()
    return thread
  }

  ask(message: Request): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#isClosing) throw new DormouseError('internal', 'the egress worker is closed')
      if (this.#died !== undefined) throw this.#died
      const request = this.#nextRequest++
      this.#pending.set(request, { resolve, reject })
      this.#worker.ref()
      this.#worker.postMessage({ ...message, request } satisfies ToWorker)
    })
  }

  tell(message: Extract<ToWorker, { type: 'forget' | 'host-addresses' }>): void {
    this.#worker.postMessage(message)
  }

  async close(): Promise<void> {
    // A worker that died is closed.
    const closed = this.ask({ type: 'close' }).catch(() => {})
    this.#isClosing = true
    await settledWithin(closed, WORKER_CLOSE_TIMEOUT_MS)
    await this.#worker.terminate()
    await this.#exited
  }

  #settle(message: Extract<FromWorker, { request: number }>): void {
    const pending = this.#pending.get(message.request)
    this.#pending.delete(message.request)
    if (this.#pending.size === 0) this.#worker.unref()
    if (message.type === 'done') pending?.resolve(message.value)
    else pending?.reject(new DormouseError('internal', `egress: ${message.message}`))
  }
}
