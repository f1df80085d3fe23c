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
  /** A user of the sandbox. Default: its default user. */
  readonly user?: string | undefined
}

export interface WriteOptions extends FileOptions {
  /** Octal, such as `0644`. */
  readonly mode?: string | undefined
  /** Makes missing parent directories. */
  readonly parents?: boolean | undefined
  /** Appends instead of replacing. */
  readonly append?: boolean | undefined
}

/** A stream is sent as it comes, and cannot be sent again after a lost connection. */
export type FileContent = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array>

/** Files of a sandbox. Paths are absolute, or relative to the home of the user. Every call wakes the sandbox. */
export class Files {
  readonly #http: Http
  readonly #path: string
  readonly #sandboxPath: string

  constructor(http: Http, sandboxPath: string) {
    this.#http = http
    this.#sandboxPath = sandboxPath
    this.#path = `${sandboxPath}/files`
  }

  /** Returns the file as text. */
  async read(path: string, options: FileOptions = {}): Promise<string> {
    return new TextDecoder().decode(await this.readBytes(path, options))
  }

  /** Returns the file as bytes. */
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

  /** Reads a file of any size. Fails with `conflict` if the file changes after a lost connection. */
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

  /** Replaces the file: readers see the old one or the new one. A write that fails leaves the old one. */
  write(path: string, content: FileContent, options: WriteOptions = {}): Promise<FileStat> {
    const { signal, user, mode, parents, append } = options
    return this.#http.json({
      method: 'PUT',
      path: this.#path,
      query: { path, user, mode, parents, append },
      headers: { 'content-type': 'application/octet-stream' },
      body: content as BodyInit,
      repeatable: append !== true && !(content instanceof ReadableStream),
      // A big file may take long.
      timeoutMs: 0,
      signal,
    })
  }

  /** Sorted by name, directories before their contents. `depth` 1, the default, lists only the directory itself. */
  async list(
    path: string,
    { depth, ...options }: FileOptions & { depth?: number } = {},
  ): Promise<readonly FileStat[]> {
    return (await this.#get<FileListAnswer>('/list', { path, depth }, options)).items
  }

  /** `follow: false` describes a link itself. */
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
      // Throws `not_found` if it is the sandbox that does not exist.
      await this.#http.json({ path: this.#sandboxPath, signal: options.signal })
      return false
    }
  }

  /** Makes missing parents too and accepts an existing directory, unless `parents` is false. */
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

  /** Replaces an existing target unless `overwrite` is false. */
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

  /** Removes a symbolic link itself, not its target. */
  remove(path: string, options: FileOptions & { recursive?: boolean } = {}): Promise<void> {
    const { signal, user, recursive } = options
    return this.#http.delete({ path: this.#path, query: { path, user, recursive }, signal })
  }

  /**
   * Changes as they come; `ready` is the first. An `overflow` means that changes in or below its path were lost: list
   * it again. Reading keeps the sandbox awake. End it with `break` or the signal.
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
