import files from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'

type Rename = typeof files.rename
type Open = typeof files.open
type ReadFile = typeof files.readFile
type Readdir = typeof files.readdir

/** Makes calls of this process to the file system fail, as a disk that breaks does, until it is disposed. */
export class BrokenDisk implements Disposable {
  readonly #rename: Rename = files.rename
  readonly #open: Open = files.open
  readonly #readFile: ReadFile = files.readFile
  readonly #readdir: Readdir = files.readdir

  constructor(broken: {
    readonly rename?: (from: string, to: string) => boolean
    readonly sync?: (path: string) => boolean
    readonly read?: (path: string) => boolean
    /** How long a directory takes to be read. */
    readonly delay?: (path: string) => Promise<unknown> | undefined
  }) {
    files.rename = async (from, to) => {
      if (broken.rename?.(String(from), String(to))) throw brokenDisk('rename')
      return this.#rename(from, to)
    }
    files.open = async (path, ...rest) => {
      const handle = await this.#open(path, ...rest)
      if (broken.sync?.(String(path))) handle.sync = () => Promise.reject(brokenDisk('fsync'))
      return handle
    }
    files.readFile = (async (path: string, ...rest: [never]) => {
      if (broken.read?.(path)) throw brokenDisk('read')
      return this.#readFile(path, ...rest)
    }) as ReadFile
    files.readdir = (async (path: string, ...rest: [never]) => {
      await broken.delay?.(path)
      return this.#readdir(path, ...rest)
    }) as Readdir
    syncBuiltinESMExports()
  }

  [Symbol.dispose](): void {
    files.rename = this.#rename
    files.open = this.#open
    files.readFile = this.#readFile
    files.readdir = this.#readdir
    syncBuiltinESMExports()
  }
}

function brokenDisk(syscall: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`EIO: i/o error, ${syscall}`), { code: 'EIO', syscall })
}
