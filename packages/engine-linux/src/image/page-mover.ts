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
    /** Parts of other memory files and of libraries. Where `moves` write there are none. */
    readonly bases?: readonly PageBase[]
  }
}

export interface PageBase extends PageMove {
  readonly path: string
  /** The host directory that `path` starts from. A sandbox may have chosen both, so no symlink is followed. */
  readonly beneath?: string
}

/** A part of a pages image, and the part of a memory file that it was mapped from. */
export interface PageComparison extends FileRange {
  readonly base: { readonly path: string; readonly offset: bigint }
}

/** A part of a pages image. `base` is the part of a memory file that it is mapped from. */
export interface FoldedPart extends FileRange {
  readonly base?: PageComparison['base'] | undefined
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

/** Has the native program work on the pages of a dump, from any thread. */
export abstract class PageMover {
  /** Sends records, see native/src/pages.c, and returns the lines of the answer. */
  abstract ask(records: Uint8Array): Promise<string[]>

  /** Moves all pages of a dump. Returns the memory files that it made, which are not synced yet. */
  async move(tasks: readonly PageMoves[]): Promise<SealedMemory[]> {
    if (tasks.length === 0) return []
    return (await this.ask(encodeRecords([...tasks.flatMap(toRecords), 'close=']))).map(parseMemory)
  }

  /** Returns which pages of a pages image are equal to those of the memory files, in the order of `comparisons`. */
  async findUnchanged(sourcePath: string, comparisons: readonly PageComparison[]): Promise<FileRange[]> {
    if (comparisons.length === 0) return []
    const records = [`source=${sourcePath}`]
    let openPath: string | undefined
    for (const { offset, lengthBytes, base } of comparisons) {
      if (base.path !== openPath) records.push(`against=${base.path}`)
      openPath = base.path
      records.push(`same=${offset} ${base.offset} ${lengthBytes}`)
    }
    return (await this.ask(encodeRecords([...records, 'close=']))).map(parseRange)
  }

  /** Makes the folded form of a pages image: see native/src/fold-pages.h. `parts` are all of its pages, in order. */
  async fold(sourcePath: string, foldedPath: string, parts: readonly FoldedPart[]): Promise<void> {
    await this.ask(encodeRecords(foldRecords(sourcePath, foldedPath, parts)))
  }

  /** Makes pages images from their folded forms. `memoryDir` has the memory files that they were folded against. */
  async unfold(files: readonly { folded: string; pages: string }[], memoryDir: string): Promise<void> {
    const records = files.flatMap(({ folded, pages }) => [
      ...[`source=${folded}`, `kept=${pages}`, `unfold=${memoryDir}`],
    ])
    await this.ask(encodeRecords([...records, 'close=']))
  }
}

function foldRecords(sourcePath: string, foldedPath: string, parts: readonly FoldedPart[]): string[] {
  const records = [`source=${sourcePath}`, `folded=${foldedPath}`]
  let openPath: string | undefined
  for (const { offset, lengthBytes, base } of parts) {
    if (base !== undefined && base.path !== openPath) {
      records.push(`against=${base.path}`)
      openPath = base.path
    }
    records.push(
      base === undefined ? `plain=${offset} ${lengthBytes}` : `fold=${offset} ${base.offset} ${lengthBytes}`,
    )
  }
  return [...records, 'close=']
}

export function encodeRecords(records: readonly string[]): Uint8Array {
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
      if (base.path !== openPath) records.push(...openBase(base))
      openPath = base.path
      records.push(`base=${range(base)}`)
    }
  }
  return records
}

function openBase({ path, beneath }: PageBase): string[] {
  return beneath === undefined ? [`source=${path}`] : [`root=${beneath}`, `library=${path}`]
}

export function parseMemory(line: string): SealedMemory {
  const [, size, checksum, mtimeNs, name] = /^memory (\d+) ([0-9a-f]{16}) (\d+) (.+)$/.exec(line) ?? []
  if (name === undefined || checksum === undefined || mtimeNs === undefined)
    throw new Error(`unexpected answer: ${line}`)
  return { name, sizeBytes: Number(size), checksum, mtimeNs: BigInt(mtimeNs) }
}

function parseRange(line: string): FileRange {
  const [, offset, lengthBytes] = /^same (\d+) (\d+)$/.exec(line) ?? []
  if (offset === undefined || lengthBytes === undefined) throw new Error(`unexpected answer: ${line}`)
  return { offset: BigInt(offset), lengthBytes: BigInt(lengthBytes) }
}
