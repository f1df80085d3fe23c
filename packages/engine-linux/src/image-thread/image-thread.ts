import { Worker } from 'node:worker_threads'
import { DormouseError } from '@dormouse/contracts'
import type { PageMover } from '../image/page-mover.ts'
import type { ImageWork, WorkInput, WorkOutput } from './image-work.ts'
import { decodeError, encodeError, type FromThread, type ToThread } from './messages.ts'

/** Enough for a dump with everything at its limit (image/dump-limits.ts). */
const HEAP_MAX_MIB = 1024
const YOUNG_MAX_MIB = 64
/** For one request, not counting the time for moving pages. A dump at all limits takes seconds. */
const REQUEST_TIMEOUT_MS = 60_000

// Node cannot load TypeScript in a thread, so tests that run from the sources need the built thread.
const MAIN = new URL(
  import.meta.url.endsWith('.ts') ? '../../dist/image-thread/main.js' : './main.js',
  import.meta.url,
)

interface Request {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
  readonly pages: PageMover | undefined
}

/**
 * A thread that reads images, one request at a time. A failure in it is an error of the current request. The thread may
 * have ended then.
 */
export class ImageThread {
  readonly #worker: Worker
  #request: Request | undefined
  #timer: NodeJS.Timeout | undefined
  #isOver = false

  constructor() {
    this.#worker = new Worker(MAIN, {
      name: 'images',
      // Not the arguments of this process, which may resolve imports to TypeScript sources.
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MAX_MIB, maxYoungGenerationSizeMb: YOUNG_MAX_MIB },
    })
    // An idle thread must not keep the process alive.
    this.#worker.unref()
    this.#worker.on('message', (message: FromThread) => this.#receive(message))
    this.#worker.on('error', (cause) => this.#end(explain(cause)))
    this.#worker.on('exit', () => this.#end(refused('the thread that read its images has ended')))
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** Pre: no other request is running on this thread. `pages` moves the pages that the work wants moved. */
  run<Op extends keyof ImageWork>(op: Op, input: WorkInput<Op>, pages?: PageMover): Promise<WorkOutput<Op>> {
    return new Promise((resolve, reject) => {
      if (this.#isOver) return reject(refused('the thread that read its images has ended'))
      this.#request = { resolve: (value) => resolve(value as WorkOutput<Op>), reject, pages }
      this.#worker.ref()
      this.#limit()
      this.#post({ type: 'run', op, input })
    })
  }

  /** Lets the thread free what it has read. */
  forget(): void {
    if (!this.#isOver) this.#post({ type: 'forget' })
  }

  async close(): Promise<void> {
    this.#isOver = true
    await this.#worker.terminate()
  }

  #receive(message: FromThread): void {
    if (message.type === 'pages') void this.#workOnPages(message.records)
    else if (message.type === 'done') this.#settle()?.resolve(message.value)
    else this.#settle()?.reject(decodeError(message.error))
  }

  async #workOnPages(records: Uint8Array): Promise<void> {
    clearTimeout(this.#timer)
    try {
      const pages = this.#request?.pages
      if (pages === undefined) throw new Error('nothing works on pages')
      this.#post({ type: 'pages-done', lines: await pages.ask(records) })
    } catch (error) {
      this.#post({ type: 'pages-failed', error: encodeError(error) })
    }
    this.#limit()
  }

  #limit(): void {
    clearTimeout(this.#timer)
    if (this.#request === undefined) return
    this.#timer = setTimeout(() => {
      this.#end(refused(`its images take more than ${REQUEST_TIMEOUT_MS / 1000} s to read`))
      void this.#worker.terminate()
    }, REQUEST_TIMEOUT_MS)
  }

  #settle(): Request | undefined {
    const request = this.#request
    this.#request = undefined
    clearTimeout(this.#timer)
    this.#worker.unref()
    return request
  }

  #end(error: DormouseError): void {
    this.#isOver = true
    this.#settle()?.reject(error)
  }

  #post(message: ToThread): void {
    this.#worker.postMessage(message)
  }
}

function explain(cause: NodeJS.ErrnoException): DormouseError {
  if (cause.code === 'ERR_WORKER_OUT_OF_MEMORY')
    return refused(`its images take more than ${HEAP_MAX_MIB} MiB of memory to read`, cause)
  return new DormouseError('internal', 'The thread that reads images failed.', { cause })
}

function refused(reason: string, cause?: unknown): DormouseError {
  return new DormouseError('snapshot_refused', `The sandbox cannot be saved: ${reason}.`, {
    details: { reason },
    cause,
  })
}
