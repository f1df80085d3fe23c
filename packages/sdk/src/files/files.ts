import type {
  FileChangeAnswer,
  FileListAnswer,
  FileStatAnswer,
  MakeDirectoryBody,
  MoveFileBody,
} from '../contract/index.ts'
import { hasCode } from '../error.ts'
import type { Http, Query } from '../http/http.ts'
import type { Abortable } from '../options.ts'
import { readFile } from './read-file.ts'
import { watchFiles } from './watch-files.ts'

export type FileStat = FileStatAnswer
export type FileChange = FileChangeAnswer

export interface FileOptions extends Abortable {
  /** A user of the sandbox; its default user if not given. */
  readonly user?: string | undefined
}

export interface WriteOptions extends FileOptions {
  /** Octal, such as `0644`. */
  readonly mode?: string | undefined
  /** Make the directories above it. */
  readonly parents?: boolean | undefined
  /** Add to the end instead of replacing. */
  readonly append?: boolean | undefined
}

/** What can be written. A stream is sent as it comes, and cannot be sent again when the connection is lost. */
export type FileContent = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array>

/** Files of a sandbox. Paths are absolute, or relative to the home of the user; waking it is not needed, any call does. */
export class Files {
  readonly #http: Http
  readonly #path: string
  readonly #sandboxPath: string

  constructor(http: Http, sandboxPath: string) {
    this.#http = http
    this.#sandboxPath = sandboxPath
    this.#path = `${sandboxPath}/files`
  }

  /** The whole file as text. */
  async read(path: string, options: FileOptions = {}): Promise<string> {
    return new TextDecoder().decode(await this.readBytes(path, options))
  }

  /** The whole file as bytes. */
  async readBytes(path: string, options: FileOptions = {}): Promise<Uint8Array> {
    const pieces: Uint8Array[] = []
    let length = 0
    for await (const piece of this.#bytes(path, options)) {
      pieces.push(piece)
      length += piece.byteLength
    }
    const all = new Uint8Array(length)
    let at = 0
    for (const piece of pieces) {
      all.set(piece, at)
      at += piece.byteLength
    }
    return all
  }

  /** A file of any size, as fast as it is read. A file that changes meanwhile ends it with `conflict`. */
  stream(path: string, options: FileOptions = {}): ReadableStream<Uint8Array> {
    const bytes = this.#bytes(path, options)
    return new ReadableStream({
      async pull(controller) {
        const { done, value } = await bytes.next()
        if (done === true) controller.close()
        else controller.enqueue(value)
      },
      async cancel() {
        await bytes.return()
      },
    })
  }

  /** Readers see the old file or the new one, and one that breaks off leaves the old one. */
  write(path: string, content: FileContent, options: WriteOptions = {}): Promise<FileStat> {
    const { signal, user, mode, parents, append } = options
    return this.#http.json({
      method: 'PUT',
      path: this.#path,
      query: { path, user, mode, parents, append },
      headers: { 'content-type': 'application/octet-stream' },
      body: content as BodyInit,
      repeatable: append !== true && !(content instanceof ReadableStream),
      // A big file takes what it takes.
      timeoutMs: 0,
      signal,
    })
  }

  /** In name order, directories before what is in them; `depth` 1 (the directory alone) if not given. */
  async list(
    path: string,
    { depth, ...options }: FileOptions & { depth?: number } = {},
  ): Promise<readonly FileStat[]> {
    return (await this.#get<FileListAnswer>('/list', { path, depth }, options)).items
  }

  /** `follow: false`: about a link itself. */
  stat(path: string, { follow, ...options }: FileOptions & { follow?: boolean } = {}): Promise<FileStat> {
    return this.#get('/stat', { path, follow }, options)
  }

  async exists(path: string, options: FileOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options)
      return true
    } catch (error) {
      if (hasCode(error, 'not_a_directory')) return false
      if (!hasCode(error, 'not_found')) throw error
      // It may be the sandbox that is not there: then this says so.
      await this.#http.json({ path: this.#sandboxPath, signal: options.signal })
      return false
    }
  }

  /** Makes the directories above it too, and is content with one that exists, unless `parents` is false. */
  mkdir(
    path: string,
    options: FileOptions & Pick<MakeDirectoryBody, 'mode' | 'parents'> = {},
  ): Promise<FileStat> {
    const { signal, ...body } = options
    return this.#http.json({
      method: 'POST',
      path: `${this.#path}/mkdir`,
      json: { path, ...body },
      repeatable: options.parents !== false,
      signal,
    })
  }

  /** Replaces what is there, unless `overwrite` is false. */
  move(
    from: string,
    to: string,
    options: FileOptions & Pick<MoveFileBody, 'overwrite'> = {},
  ): Promise<FileStat> {
    const { signal, ...body } = options
    return this.#http.json({
      method: 'POST',
      path: `${this.#path}/move`,
      json: { from, to, ...body },
      signal,
    })
  }

  /** A link is removed itself, never what it leads to. */
  remove(path: string, options: FileOptions & { recursive?: boolean } = {}): Promise<void> {
    const { signal, user, recursive } = options
    return this.#http.delete({ path: this.#path, query: { path, user, recursive }, signal })
  }

  /**
   * Changes as they come; `ready` is the first. After an `overflow`, changes in or below its path were missed: look again.
   * Keeps the sandbox awake while it is read. End it with `break` or the signal.
   */
  watch(path: string, options: FileOptions & { recursive?: boolean } = {}): AsyncIterable<FileChange> {
    const { signal, user, recursive } = options
    return watchFiles(this.#http, { path: `${this.#path}/watch`, query: { path, user, recursive }, signal })
  }

  #get<Answer>(what: string, query: Query, { user, signal }: FileOptions): Promise<Answer> {
    return this.#http.json({ path: this.#path + what, query: { ...query, user }, signal })
  }

  #bytes(path: string, { user, signal }: FileOptions) {
    return readFile(this.#http, { path: this.#path, query: { path, user }, signal })
  }
}
