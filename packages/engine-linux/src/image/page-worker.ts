import type { Duplex, Writable } from 'node:stream'
import { onAbort } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import { type Program, startProgram } from '../host/start-program.ts'
import { pagesProgram } from '../native-programs.ts'
import {
  encodeRecords,
  type FileRange,
  PageMover,
  parseMemory,
  type SealedMemory,
  type SummedFile,
} from './page-mover.ts'

/** How much of standard error to keep for the message. The program writes one line. */
const ERROR_MAX_CHARACTERS = 2_000

/**
 * The native program that moves pages, computes checksums and syncs files. It is started ahead of need and executes
 * requests in order. No page passes through this process. After a failure the program has ended, and all later calls
 * fail too.
 */
export class PageWorker extends PageMover implements AsyncDisposable {
  readonly #program: Program
  readonly #input: Writable
  readonly #closed: Promise<number | string>
  readonly #waiting: {
    lines: string[]
    resolve: (lines: string[]) => void
    reject: (error: unknown) => void
  }[] = []
  #failure: unknown
  #wasKilled = false
  #said = ''
  #unread = ''

  /** `isIdle` runs it at the lowest priority. An abort ends it, and all calls fail with the reason. */
  constructor({ isIdle = false, signal }: { isIdle?: boolean; signal?: AbortSignal } = {}) {
    super()
    signal?.throwIfAborted()
    this.#program = startProgram({ argv: [pagesProgram], stdio: ['pipe', 'pipe', 'pipe'] })
    const [input, answers, errors] = this.#program.streams as [Duplex, Duplex, Duplex]
    this.#input = input
    errors.setEncoding('utf8').on('data', (text: string) => {
      this.#said = (this.#said + text).slice(0, ERROR_MAX_CHARACTERS)
    })
    answers.setEncoding('utf8').on('data', (text: string) => this.#read(text))
    // A program that failed stops reading; its own message says more than the broken pipe.
    input.on('error', () => {})
    if (isIdle) input.write('gently=\0')
    const listener = onAbort(signal, () => this.#program.kill('SIGKILL'))
    this.#closed = this.#program.closed.then(
      ({ exitCode, signal: killedBy }) => exitCode ?? `killed by ${killedBy}`,
    )
    void this.#closed.then((ending) => {
      listener[Symbol.dispose]()
      this.#wasKilled = typeof ending === 'string'
      this.#failure = signal?.aborted ? signal.reason : workError(this.#said.trim(), ending)
      for (const { reject } of this.#waiting.splice(0)) reject(this.#failure)
    })
  }

  /** Whether all later calls fail. */
  get hasEnded(): boolean {
    return this.#failure !== undefined
  }

  /** By whatever signal: its work may succeed in another one. */
  get wasKilled(): boolean {
    return this.#wasKilled
  }

  /** Returns size, checksum and time of existing memory files without reading them. */
  async recall(paths: readonly string[]): Promise<SealedMemory[]> {
    return (await this.#ask(paths.map((path) => `known=${path}`))).map(parseMemory)
  }

  /** Reads files and returns their checksums. */
  async sum(paths: readonly string[]): Promise<SummedFile[]> {
    return (await this.#ask(paths.map((path) => `file=${path}`))).map(parseFile)
  }

  /** Returns the checksums of all files in a directory, by name, and lets burrows read the files. */
  async seal(directory: string): Promise<SummedFile[]> {
    const files = (await this.#ask([`files=${directory}`])).map(parseFile)
    return files.sort((one, other) => (one.name < other.name ? -1 : 1))
  }

  /** Returns how many bytes of the given ranges of each file are on disk: holes take no space. */
  async weigh(files: readonly { path: string; ranges: readonly FileRange[] }[]): Promise<number[]> {
    const records = files.flatMap(({ path, ranges }) => [
      `source=${path}`,
      ...ranges.map(({ offset, lengthBytes }) => `data=${offset} ${lengthBytes}`),
      'weight=',
    ])
    return (await this.#ask([...records, 'close='])).map((line) => Number(/^weight (\d+)$/.exec(line)?.[1]))
  }

  /** Post: these files and directories, and everything below them, are on disk. */
  async sync(paths: readonly string[]): Promise<void> {
    await this.#ask(paths.map((path) => `sync=${path}`))
  }

  /** Removes names that a sandbox chose, without following symlinks. Missing names are ignored. */
  async unlinkBeneath(root: string, paths: readonly string[]): Promise<void> {
    await this.#ask([`root=${root}`, ...paths.map((path) => `unlink=${path.replace(/^[./]+/, '')}`)])
  }

  /** Post: the program has ended and writes nothing any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#program.kill('SIGKILL')
    await this.#closed
  }

  #ask(records: readonly string[]): Promise<string[]> {
    return this.ask(encodeRecords(records))
  }

  ask(records: Uint8Array): Promise<string[]> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) return reject(this.#failure)
      this.#waiting.push({ lines: [], resolve, reject })
      this.#input.write(records)
    })
  }

  #read(text: string): void {
    const lines = (this.#unread + text).split('\n')
    this.#unread = lines.pop() ?? ''
    for (const line of lines) {
      if (line === 'end') this.#answer()
      else this.#waiting[0]?.lines.push(line)
    }
  }

  #answer(): void {
    const first = this.#waiting.shift()
    first?.resolve(first.lines)
  }
}

function parseFile(line: string): SummedFile {
  const [, size, checksum, name] = /^file (\d+) ([0-9a-f]{16}) (.+)$/.exec(line) ?? []
  if (name === undefined || checksum === undefined) throw new Error(`unexpected answer: ${line}`)
  return { name, sizeBytes: Number(size), checksum }
}

function workError(said: string, ending: number | string): DormouseError {
  const details = { output: said, ending }
  if (said.endsWith('No space left on device') || said.endsWith('Disk quota exceeded'))
    return new DormouseError('no_space', 'There is no space for the memory of the snapshot.', { details })
  const what = said || `dormouse-pages ended with ${ending}`
  return new DormouseError('internal', `Moving the memory of a snapshot failed: ${what}`, { details })
}
