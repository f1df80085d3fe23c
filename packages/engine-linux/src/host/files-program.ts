import { once } from 'node:events'
import { relative } from 'node:path'
import type { Duplex } from 'node:stream'
import { onAbort } from '@dormouse/async'
import { DormouseError, type ErrorCode } from '@dormouse/contracts'
import type { ByteSource, FileStat } from '@dormouse/engine'
import { filesProgram } from '../native-programs.ts'
import { type Program, startProgram } from './start-program.ts'

export interface StartFilesProgram {
  readonly ids: { readonly base: number; readonly count: number }
  readonly layersDir: string
  /** An empty directory; the program mounts there in a mount namespace of its own. */
  readonly mountPoint: string
  /** Top first. */
  readonly layers: readonly string[]
  readonly user: string
  /** The rest of its command line. */
  readonly action: readonly string[]
  readonly signal: AbortSignal | undefined
}

interface RunFilesProgram {
  /** For errors. */
  readonly path: string
  readonly signal?: AbortSignal | undefined
  /** It is killed after this time. */
  readonly lifeMs?: number | undefined
}

/** Longer than any reader may take. */
const LIFE_MS = 130_000
const MESSAGE_MAX_CHARACTERS = 4096
const TYPES = ['file', 'directory', 'symlink', 'fifo', 'socket', 'device'] as const

/** What the numbers of Linux mean to a caller. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  1: 'permission_denied',
  2: 'not_found',
  7: 'too_large',
  13: 'permission_denied',
  17: 'already_exists',
  18: 'invalid_argument',
  20: 'not_a_directory',
  21: 'not_a_file',
  22: 'invalid_argument',
  24: 'too_large',
  28: 'no_space',
  36: 'invalid_argument',
  39: 'directory_not_empty',
  40: 'invalid_argument',
  122: 'limit_reached',
}

/** One run of dormouse-files. What it prints comes from a sandbox, except for the shape of its records. */
export class FilesProgram implements AsyncDisposable {
  readonly #program: Program
  readonly #chunks: AsyncIterator<Buffer>
  readonly #path: string
  readonly #release: () => void
  #rest: Buffer = Buffer.alloc(0)
  #message = ''
  #begun: Promise<void> | undefined
  #users: ReadonlyMap<number, string> = new Map()
  #groups: ReadonlyMap<number, string> = new Map()

  private constructor(program: Program, path: string, release: () => void) {
    const [, stdout, stderr] = program.streams as [Duplex, Duplex, Duplex]
    this.#program = program
    this.#path = path
    this.#release = release
    this.#chunks = stdout[Symbol.asyncIterator]() as AsyncIterator<Buffer>
    stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#message = (this.#message + text).slice(0, MESSAGE_MAX_CHARACTERS)
    })
  }

  static start(options: StartFilesProgram): FilesProgram {
    const { ids, layersDir, mountPoint, layers, user, action, signal } = options
    const place = [String(ids.base), String(ids.count), layersDir, mountPoint, user]
    const program = FilesProgram.run([filesProgram, ...place, ...action], { path: action[1] ?? '', signal })
    program.#input.end(layers.map((path) => `${relative(layersDir, path)}\0`).join(''))
    return program
  }

  /** Starts a program that prints what dormouse-files prints. */
  static run(
    argv: readonly [string, ...string[]],
    { path, signal, lifeMs = LIFE_MS }: RunFilesProgram,
  ): FilesProgram {
    signal?.throwIfAborted()
    const child = startProgram({ argv, stdio: ['pipe', 'pipe', 'pipe'] })
    const end = () => child.kill('SIGKILL')
    const aborting = onAbort(signal, end)
    const timer = setTimeout(end, lifeMs).unref()
    const program = new FilesProgram(child, path, () => {
      clearTimeout(timer)
      aborting[Symbol.dispose]()
    })
    // A program that gave up stops reading; its own message says more than a broken pipe.
    program.#input.on('error', () => {})
    return program
  }

  /**
   * Sends its input. Returns early when the program has given up. When `data` fails, the program is killed: the end of
   * its input would mean that all is there.
   */
  async send(data: ByteSource): Promise<void> {
    const input = this.#input
    const pieces = typeof data === 'string' || data instanceof Uint8Array ? [data] : data
    try {
      for await (const piece of pieces) {
        if (input.destroyed) return
        if (!input.write(piece))
          await Promise.race([once(input, 'drain').catch(() => {}), this.#program.exited])
      }
    } catch (error) {
      this.#program.kill('SIGKILL')
      throw error
    }
    input.end()
  }

  get #input(): Duplex {
    return this.#program.streams[0] as Duplex
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#program.kill('SIGKILL')
    // First its end, which tells its child to undo: the end of the input would mean that all is there.
    await this.#program.exited
    for (const stream of this.#program.streams) stream?.destroy()
    this.#release()
  }

  /** All entries that it prints. */
  async entries(): Promise<FileStat[]> {
    await this.begun()
    const found: FileStat[] = []
    for (;;) {
      const numbers = await this.#string()
      if (numbers === undefined) {
        const { exitCode } = await this.#program.exited
        if (exitCode !== 0) throw this.#failed()
        return found
      }
      found.push(await this.#entry(numbers))
    }
  }

  /** The first entry. */
  async entry(): Promise<FileStat> {
    await this.begun()
    const numbers = await this.#string()
    if (numbers === undefined) throw this.#failed()
    return this.#entry(numbers)
  }

  /** What it prints after the entries that were read. */
  async *bytes(): AsyncGenerator<Uint8Array> {
    if (this.#rest.length > 0) yield this.#rest
    for (let next = await this.#chunks.next(); next.done !== true; next = await this.#chunks.next())
      yield next.value
    const { exitCode } = await this.#program.exited
    if (exitCode !== 0) throw this.#failed()
  }

  /** Settles when it has printed `ok` or an error. */
  begun(): Promise<void> {
    this.#begun ??= this.#begin()
    return this.#begun
  }

  async #begin(): Promise<void> {
    const first = await this.#string()
    if (first === undefined) throw this.#failed()
    this.#throwError(first)
    this.#users = namesOf(await this.#string())
    this.#groups = namesOf(await this.#string())
  }

  async #entry(numbers: string): Promise<FileStat> {
    this.#throwError(numbers)
    const [type, mode, uid, gid, sizeBytes, modifiedAt] = numbers.split(' ')
    const path = (await this.#string()) ?? ''
    const target = (await this.#string()) ?? ''
    const known = TYPES.find((one) => one === type)
    if (known === undefined) throw this.#failed()
    return {
      path,
      name: path.slice(path.lastIndexOf('/') + 1),
      type: known,
      sizeBytes: Number(sizeBytes),
      mode: Number(mode),
      uid: Number(uid),
      gid: Number(gid),
      user: this.#users.get(Number(uid)) ?? String(uid),
      group: this.#groups.get(Number(gid)) ?? String(gid),
      modifiedAt: Number(modifiedAt),
      ...(known === 'symlink' && { target }),
    }
  }

  /** The next string; undefined at the end. */
  async #string(): Promise<string | undefined> {
    const parts = [this.#rest]
    for (let end = this.#rest.indexOf(0); ; end = parts.at(-1)?.indexOf(0) ?? -1) {
      if (end !== -1) {
        const last = parts.pop() ?? Buffer.alloc(0)
        this.#rest = last.subarray(end + 1)
        return Buffer.concat([...parts, last.subarray(0, end)]).toString('utf8')
      }
      const next = await this.#chunks.next()
      if (next.done === true) return undefined
      parts.push(next.value)
    }
  }

  #throwError(record: string): void {
    const [, number] = /^error (\d+)$/.exec(record) ?? []
    if (number === undefined) return
    const code = CODES[Number(number)] ?? 'internal'
    throw new DormouseError(code, `${this.#path}: ${WORDS[code] ?? 'cannot be read'}`)
  }

  #failed(): DormouseError {
    if (this.#message.includes('No space left on device'))
      return new DormouseError('no_space', 'The disk is full; nothing was written.')
    return new DormouseError('internal', 'Files could not be read or written.', {
      details: { output: this.#message },
    })
  }
}

const WORDS: Partial<Record<ErrorCode, string>> = {
  not_found: 'does not exist',
  not_a_directory: 'is not a directory',
  not_a_file: 'is not a file',
  permission_denied: 'may not be read',
  too_large: 'has too many entries',
  already_exists: 'exists already',
  directory_not_empty: 'is not empty',
  no_space: 'the disk is full',
  limit_reached: 'the volume would hold more than it may',
  invalid_argument: 'is not a possible path',
}

/** Names by number, from the lines of /etc/passwd or /etc/group. */
function namesOf(text = ''): Map<number, string> {
  const names = new Map<number, string>()
  for (const line of text.split('\n')) {
    const [name = '', , id = ''] = line.split(':', 3)
    if (/^\d{1,10}$/.test(id) && /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}\$?$/.test(name) && !names.has(Number(id)))
      names.set(Number(id), name)
  }
  return names
}
