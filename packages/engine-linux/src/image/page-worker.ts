import type { Duplex, Writable } from 'node:stream'
import { onAbort } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import { type Program, startProgram } from '../host/start-program.ts'
import { pagesProgram } from '../native-programs.ts'

/** How much of standard error to keep for the message. The program writes one line. */
const ERROR_MAX_CHARACTERS = 2_000

/** The changes to the pages image of one task. */
export interface PageMoves {
  readonly sourcePath: string
  /** Receives the pages that stay, one after the other. */
  readonly keptPath: string
  readonly keep: readonly FileRange[]
  /** A sparse file to make; zero pages become holes. */
  readonly memory?: {
    readonly path: string
    readonly sizeBytes: bigint
    readonly moves: readonly PageMove[]
    /** Parts of other memory files. Where `moves` write there are none. */
    readonly bases?: readonly (PageMove & { readonly path: string })[]
  }
}

export interface FileRange {
  readonly offset: bigint
  readonly lengthBytes: bigint
}

export interface PageMove {
  readonly from: bigint
  readonly to: bigint
  readonly lengthBytes: bigint
}

export interface SummedFile {
  readonly name: string
  readonly sizeBytes: number
  /** 16 hexadecimal digits: see native/src/checksum.h. */
  readonly checksum: string
}

export interface SealedMemory extends SummedFile {
  /** Time of our last write. Another time means that something else wrote to the file. */
  readonly mtimeNs: bigint
}

/** Moves all pages of a dump. Returns the memory files that it made, which are not synced yet. */
export interface PageMover {
  move(tasks: readonly PageMoves[]): Promise<SealedMemory[]>
}

/**
 * The native program that moves pages, computes checksums and syncs files. It is started ahead of need and executes
 * requests in order. No page passes through this process. After a failure the program has ended, and all later calls
 * fail too.
 */
export class PageWorker implements AsyncDisposable, PageMover {
  readonly #program: Program
  readonly #input: Writable
  readonly #closed: Promise<number | string>
  readonly #waiting: {
    lines: string[]
    resolve: (lines: string[]) => void
    reject: (error: unknown) => void
  }[] = []
  #failure: unknown
  #said = ''
  #unread = ''

  /** `isIdle` runs it at the lowest priority. An abort ends it, and all calls fail with the reason. */
  constructor({ isIdle = false, signal }: { isIdle?: boolean; signal?: AbortSignal } = {}) {
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
      this.#failure = signal?.aborted ? signal.reason : workError(this.#said.trim(), ending)
      for (const { reject } of this.#waiting.splice(0)) reject(this.#failure)
    })
  }

  async move(tasks: readonly PageMoves[]): Promise<SealedMemory[]> {
    return tasks.length === 0 ? [] : this.moveEncoded(encodeMoves(tasks))
  }

  /** Like `move`, for the output of `encodeMoves`, perhaps from another thread. */
  async moveEncoded(moves: Uint8Array): Promise<SealedMemory[]> {
    return (await this.#askEncoded(moves)).map(parseMemory)
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
    return this.#askEncoded(encodeRecords(records))
  }

  #askEncoded(records: Uint8Array): Promise<string[]> {
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

export function encodeMoves(tasks: readonly PageMoves[]): Uint8Array {
  return encodeRecords([...tasks.flatMap(toRecords), 'close='])
}

function encodeRecords(records: readonly string[]): Uint8Array {
  return Buffer.from([...records, 'end='].map((record) => `${record}\0`).join(''))
}

function toRecords({ sourcePath, keptPath, keep, memory }: PageMoves): string[] {
  const range = ({ from, to, lengthBytes }: PageMove) => `${from} ${to} ${lengthBytes}`
  const records = [`source=${sourcePath}`, `kept=${keptPath}`]
  for (const { offset, lengthBytes } of keep) records.push(`keep=${offset} ${lengthBytes}`)
  if (memory !== undefined) {
    records.push(`memory=${memory.sizeBytes} ${memory.path}`)
    for (const move of memory.moves) records.push(`move=${range(move)}`)
    let openPath: string | undefined
    for (const base of memory.bases ?? []) {
      if (base.path !== openPath) records.push(`source=${base.path}`)
      openPath = base.path
      records.push(`base=${range(base)}`)
    }
  }
  return records
}

function parseMemory(line: string): SealedMemory {
  const [, size, checksum, mtimeNs, name] = /^memory (\d+) ([0-9a-f]{16}) (\d+) (.+)$/.exec(line) ?? []
  if (name === undefined || checksum === undefined || mtimeNs === undefined)
    throw new Error(`unexpected answer: ${line}`)
  return { name, sizeBytes: Number(size), checksum, mtimeNs: BigInt(mtimeNs) }
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
