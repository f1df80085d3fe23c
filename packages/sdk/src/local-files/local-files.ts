import type { FileContent } from '../files/files.ts'

export interface LocalTreeFile {
  readonly path: string
  /** Its path below the directory, with `/`. */
  readonly below: string
  readonly mode: number
  readonly sizeBytes: number
}

export interface LocalTreeLink {
  readonly below: string
  readonly target: string
}

export interface LocalTree {
  /** Below the directory, parents first; the first is the directory itself, as ''. */
  readonly directories: readonly string[]
  readonly files: readonly LocalTreeFile[]
  /** Empty unless links are kept. */
  readonly links: readonly LocalTreeLink[]
}

export interface ReadTree {
  /** False leaves out what is there, with all below it. */
  readonly filter: (below: string) => boolean
  /** Otherwise links to files count as files, and other links are left out. */
  readonly keepsLinks?: boolean
}

/** Files of the machine that runs the SDK. Only Node has them. */
export interface LocalFiles {
  saveFile(path: string | URL, content: string | Uint8Array): Promise<void>
  readTree(local: string, options: ReadTree): Promise<LocalTree>
  isDirectory(path: string): Promise<boolean>
  /** Undefined if it is not there, or no file. */
  findFile(path: string): Promise<LocalTreeFile | undefined>
  contentOf(file: LocalTreeFile): Promise<FileContent>
  makeDirectory(local: string, below: string): Promise<void>
  replaceFile(path: string, content: AsyncIterable<Uint8Array>, mode: number): Promise<void>
  checkName(name: string): string
  /** The path of what is at `below`, in the form of this machine. */
  pathOf(local: string, below: string): string
}
