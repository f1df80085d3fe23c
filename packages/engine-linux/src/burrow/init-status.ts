import type { Readable } from 'node:stream'
import { DormouseError } from '@dormouse/contracts'
import { type FirstProcess, parseFirstProcess } from '../process/first-process.ts'

/** dormouse-init writes at most two lines, each shorter than this. */
const LINE_MAX_CHARACTERS = 1024
const READY = '1'.charCodeAt(0)

/** Reads the status pipe of dormouse-init, which no other program can write to: its PID 1, or why it failed. */
export class InitStatus {
  /** Rejects when the pipe ends without it. */
  readonly first: Promise<FirstProcess>
  /** The error that dormouse-init reported before the pipe ended, if any. */
  readonly failure: Promise<string | undefined>
  #tellFirst: (first: FirstProcess) => void = () => {}
  #failFirst: (error: unknown) => void = () => {}

  constructor(status: Readable) {
    this.first = new Promise((resolve, reject) => {
      this.#tellFirst = resolve
      this.#failFirst = reject
    })
    this.failure = this.#read(status)
    // The launch awaits one of them; until then a rejection is not unhandled.
    for (const promise of [this.first, this.failure]) promise.catch(() => {})
  }

  async #read(status: Readable): Promise<string | undefined> {
    let failure: string | undefined
    let unread = ''
    status.on('data', (chunk: Buffer) => {
      const lines = (unread + String(chunk)).split('\n')
      unread = (lines.pop() ?? '').slice(0, LINE_MAX_CHARACTERS)
      for (const line of lines) failure ??= this.#take(line)
    })
    try {
      await ended(status)
    } catch (error) {
      this.#failFirst(error)
      throw error
    }
    this.#failFirst(new DormouseError('burrow_start_failed', 'The first process of the burrow is unknown.'))
    return failure
  }

  #take(line: string): string | undefined {
    if (line.startsWith('error ')) return line.slice('error '.length)
    const first = line.startsWith('pid ') ? parseFirstProcess(`${line.slice('pid '.length)}\n`) : undefined
    if (first !== undefined) this.#tellFirst(first)
    return undefined
  }
}

/**
 * Whether the agent's first byte says that it is ready. The agent may be hostile: this reads one chunk and ignores the
 * rest.
 */
export async function saysReady(ready: Readable): Promise<boolean> {
  const first = new Promise<Buffer>((resolve) => ready.once('data', resolve))
  const chunk = await Promise.race([first, ended(ready)])
  return chunk?.[0] === READY
}

/** Not `for await`, which takes some tenths of a millisecond more, and a wake waits for it. */
function ended(stream: Readable): Promise<undefined> {
  return new Promise((resolve, reject) => {
    stream.once('error', reject)
    for (const event of ['end', 'close']) stream.once(event, () => resolve(undefined))
  })
}
