import { type MessagePort, parentPort } from 'node:worker_threads'
import { PageMover } from '../image/page-mover.ts'
import { IMAGE_WORK, type ThreadState } from './image-work.ts'
import { decodeError, encodeError, type FromThread, type PagesAnswer, type ToThread } from './messages.ts'

/** Asks the main thread, which runs the native program, to work on pages. */
class MoverOutside extends PageMover {
  readonly #port: MessagePort
  readonly #waiting: ((answer: PagesAnswer) => void)[] = []

  constructor(port: MessagePort) {
    super()
    this.#port = port
  }

  async ask(records: Uint8Array): Promise<string[]> {
    const answered = new Promise<PagesAnswer>((resolve) => this.#waiting.push(resolve))
    this.#port.postMessage({ type: 'pages', records } satisfies FromThread)
    const answer = await answered
    if (answer.type === 'pages-done') return answer.lines
    throw decodeError(answer.error)
  }

  settle(answer: PagesAnswer): void {
    this.#waiting.shift()?.(answer)
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
