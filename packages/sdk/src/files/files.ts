import type {
  FileChangeAnswer,
  FileListAnswer,
  FileStatAnswer,
  MakeDirectoryBody,
  MoveFileBody,
} from '../contract/index.ts'
import { hasCode } from '../error.ts'
import { type Content, contentBody } from '../http/content.ts'
import type { Http, Query } from '../http/http.ts'
import type { CallOptions } from '../options.ts'
import { eachWithinTime } from '../timing.ts'
import { type DirectoryOptions, downloadDirectory, uploadDirectory } from './directories.ts'
import { readFile } from './read-file.ts'
import { watchFiles } from './watch-files.ts'

export type FileStat = FileStatAnswer
export type FileChange = FileChangeAnswer

export interface FileOptions extends CallOptions {
  /** A user of the sandbox. Default: its default user. */
  readonly user?: string | undefined
}

export interface ReadOptions extends FileOptions {
  /**
   * `false`: reads the snapshot of a sleeping sandbox instead of waking it, as root and without volumes. Default: true.
   */
  readonly wake?: boolean | undefined
}

export interface WriteOptions extends FileOptions {
  /** Octal, such as `0644`. */
  readonly mode?: string | undefined
  /** Makes missing parent directories. Default: true. */
  readonly parents?: boolean | undefined
  /** Appends instead of replacing. */
  readonly append?: boolean | undefined
}

export type FileContent = Content

/**
 * Files of a sandbox. Paths are absolute, or relative to the home of the user. Every call wakes the sandbox, except for
 * reads with `wake: false`.
 */
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
  async read(path: string, options: ReadOptions = {}): Promise<string> {
    return new TextDecoder().decode(await this.readBytes(path, options))
  }

  /** Returns the file as bytes. */
  async readBytes(path: string, options: ReadOptions = {}): Promise<Uint8Array> {
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
  stream(path: string, options: ReadOptions = {}): ReadableStream<Uint8Array> {
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
  async write(path: string, content: FileContent, options: WriteOptions = {}): Promise<FileStat> {
    const { signal, timeoutMs, user, mode, parents = true, append } = options
    const { body, isStream, use } = contentBody('content', content)
    return use(() =>
      this.#http.json<FileStat>({
        method: 'PUT',
        path: this.#path,
        query: { path, user, mode, parents, append },
        headers: { 'content-type': 'application/octet-stream' },
        body,
        repeatable: append !== true && !isStream,
        // A big file may take long.
        answerMs: 0,
        signal,
        timeoutMs,
      }),
    )
  }

  /**
   * Copies what is in a directory of this machine to the directory `remote`, with the permissions of files. Only in
   * Node. Links to files become files. Other links and special files are left out. Does not remove other files.
   */
  uploadDir(local: string, remote: string, options: DirectoryOptions = {}): Promise<void> {
    return uploadDirectory(this, local, remote, options)
  }

  /**
   * Copies what is in the directory `remote` to a directory of this machine, as `uploadDir` does. Never writes through a
   * link: it replaces a link in place of a file, and throws `conflict` for one in place of a directory.
   */
  downloadDir(remote: string, local: string, options: DirectoryOptions = {}): Promise<void> {
    return downloadDirectory(this, remote, local, options)
  }

  /** Sorted by name, directories before their contents. `depth` 1, the default, lists only the directory itself. */
  async list(
    path: string,
    { depth, wake, ...options }: ReadOptions & { depth?: number } = {},
  ): Promise<readonly FileStat[]> {
    return (await this.#get<FileListAnswer>('/list', { path, depth, wake }, options)).items
  }

  /** `follow: false` describes a link itself. */
  stat(
    path: string,
    { follow, wake, ...options }: ReadOptions & { follow?: boolean } = {},
  ): Promise<FileStat> {
    return this.#get('/stat', { path, follow, wake }, options)
  }

  async exists(path: string, options: ReadOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options)
      return true
    } catch (error) {
      if (hasCode(error, 'not_a_directory')) return false
      if (!hasCode(error, 'not_found')) throw error
      // Throws `not_found` if it is the sandbox that does not exist.
      const { signal, timeoutMs } = options
      await this.#http.json({ path: this.#sandboxPath, signal, timeoutMs })
      return false
    }
  }

  /** Makes missing parents too and accepts an existing directory, unless `parents` is false. */
  mkdir(
    path: string,
    options: FileOptions & Pick<MakeDirectoryBody, 'mode' | 'parents'> = {},
  ): Promise<FileStat> {
    const { signal, timeoutMs, ...body } = options
    return this.#http.json({
      method: 'POST',
      path: `${this.#path}/mkdir`,
      json: { path, ...body },
      repeatable: options.parents !== false,
      signal,
      timeoutMs,
    })
  }

  /** Replaces an existing target unless `overwrite` is false. */
  move(
    from: string,
    to: string,
    options: FileOptions & Pick<MoveFileBody, 'overwrite'> = {},
  ): Promise<FileStat> {
    const { signal, timeoutMs, ...body } = options
    return this.#http.json({
      method: 'POST',
      path: `${this.#path}/move`,
      json: { from, to, ...body },
      signal,
      timeoutMs,
    })
  }

  /** Removes a symbolic link itself, not its target. */
  remove(path: string, options: FileOptions & { recursive?: boolean } = {}): Promise<void> {
    const { signal, timeoutMs, user, recursive } = options
    return this.#http.delete({ path: this.#path, query: { path, user, recursive }, signal, timeoutMs })
  }

  /**
   * Changes as they come; `ready` is the first. An `overflow` means that changes in or below its path were lost: list
   * it again. Reading keeps the sandbox awake. End it with `break` or the signal.
   */
  watch(path: string, options: FileOptions & { recursive?: boolean } = {}): AsyncIterable<FileChange> {
    const { user, recursive, ...limits } = options
    const query = { path, user, recursive }
    return eachWithinTime(limits, (signal) =>
      watchFiles(this.#http, { path: `${this.#path}/watch`, query, signal }),
    )
  }

  #get<Answer>(what: string, query: Query, { user, ...limits }: FileOptions): Promise<Answer> {
    return this.#http.json({ path: this.#path + what, query: { ...query, user }, ...limits })
  }

  #bytes(path: string, { user, wake, ...limits }: ReadOptions) {
    return eachWithinTime(limits, (signal) =>
      readFile(this.#http, { path: this.#path, query: { path, user, wake }, signal }),
    )
  }
}
