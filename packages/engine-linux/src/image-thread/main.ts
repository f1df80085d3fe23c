import { type MessagePort, parentPort } from 'node:worker_threads'
import { encodeMoves, type PageMover, type SealedMemory } from '../image/page-worker.ts'
import { IMAGE_WORK, type ThreadState } from './image-work.ts'
import { decodeError, encodeError, type FromThread, type ToThread } from './messages.ts'

/** Asks the main thread, which runs the native program, to move pages. */
class MoverOutside implements PageMover {
  readonly #port: MessagePort
  #settle: ((message: Extract<ToThread, { type: 'moved' | 'not-moved' }>) => void) | undefined

  constructor(port: MessagePort) {
    this.#port = port
  }

  async move(tasks: Parameters<PageMover['move']>[0]): Promise<SealedMemory[]> {
    if (tasks.length === 0) return []
    const moves = encodeMoves(tasks)
    const answered = new Promise<Extract<ToThread, { type: 'moved' | 'not-moved' }>>((resolve) => {
      this.#settle = resolve
    })
    this.#port.postMessage({ type: 'move', moves } satisfies FromThread)
    const message = await answered
    if (message.type === 'moved') return message.memoryFiles
    throw decodeError(message.error)
  }

  settle(message: Extract<ToThread, { type: 'moved' | 'not-moved' }>): void {
    this.#settle?.(message)
  }
}

/** Executes requests one at a time. The caller sends the next one after the answer. */
function serve(port: MessagePort): void {
  const mover = new MoverOutside(port)
  const state: ThreadState = { mover }
  const tell = (message: FromThread) => port.postMessage(message)
  const run = (op: string, input: unknown): Promise<unknown> => {
    const work = (IMAGE_WORK as Record<string, (state: ThreadState, input: unknown) => Promise<unknown>>)[op]
    return work === undefined ? Promise.reject(new Error(`unknown work ${op}`)) : work(state, input)
  }
  port.on('message', (message: ToThread) => {
    if (message.type === 'forget') {
      state.dump = undefined
      return
    }
    if (message.type !== 'run') {
      mover.settle(message)
      return
    }
    run(message.op, message.input).then(
      (value) => tell({ type: 'done', value }),
      (error: unknown) => tell({ type: 'failed', error: encodeError(error) }),
    )
  })
}

if (parentPort !== null) serve(parentPort)
