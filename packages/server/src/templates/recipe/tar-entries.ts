import { createHash, type Hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { DormouseError } from '@dormouse/contracts'

export interface TarEntry {
  /** Without `./` in front and without a slash at the end. The root is `.`. */
  readonly path: string
  readonly isDirectory: boolean
  /** Says all that a copy of it depends on: content, mode, target of a link. Not its time. */
  readonly digest: string
  /** What a symbolic link points to. */
  readonly link?: string
}

const BLOCK = 512
const EXTENDED_MAX_BYTES = 1024 ** 2
/** More files than this do not belong into a build. */
const ENTRIES_MAX = 500_000

/** Lists an archive, plain or compressed with gzip. Throws `invalid_argument` when it is none. */
export async function listTarEntries(path: string): Promise<TarEntry[]> {
  const hasGzip = await isGzip(path)
  const file = createReadStream(path, { highWaterMark: 256 * 1024 })
  const stream = hasGzip ? file.pipe(createGunzip()) : file
  try {
    return await readEntries(new Pieces(stream))
  } finally {
    // The archive ends before its file does. A file that stays open keeps the process from ending.
    file.destroy()
    stream.destroy()
  }
}

async function readEntries(reader: Pieces): Promise<TarEntry[]> {
  const entries: TarEntry[] = []
  let extended: Record<string, string> = {}
  for (;;) {
    const header = await reader.take(BLOCK)
    if (header === undefined || header.every((byte) => byte === 0)) return entries
    const type = String.fromCharCode(header[156] ?? 0)
    const size = Number(extended['size'] ?? readNumber(header, 124, 12))
    if (!isSound(header) || !Number.isSafeInteger(size)) throw notAnArchive()
    if ('xgLK'.includes(type)) {
      if (size > EXTENDED_MAX_BYTES) throw notAnArchive()
      const text = (await reader.take(padded(size)))?.subarray(0, size) ?? Buffer.alloc(0)
      if (type === 'x') extended = { ...extended, ...readPax(text) }
      if (type === 'L') extended = { ...extended, path: text.toString().replace(/\0.*$/s, '') }
      if (type === 'K') extended = { ...extended, linkpath: text.toString().replace(/\0.*$/s, '') }
      continue
    }
    const hash = createHash('sha256')
    const link = extended['linkpath'] ?? readText(header, 157, 100)
    hash.update(JSON.stringify([type === '\0' ? '0' : type, readNumber(header, 100, 8) & 0o7777, link]))
    await reader.skip(size, hash)
    await reader.skip(padded(size) - size)
    const entry = { path: pathOf(header, extended), isDirectory: type === '5', digest: hash.digest('hex') }
    entries.push(type === '2' ? { ...entry, link } : entry)
    if (entries.length > ENTRIES_MAX)
      throw new DormouseError('invalid_argument', `The context has more than ${ENTRIES_MAX} files.`)
    extended = {}
  }
}

async function isGzip(path: string): Promise<boolean> {
  await using file = await open(path)
  const { buffer } = await file.read(Buffer.alloc(2), 0, 2, 0)
  return buffer[0] === 0x1f && buffer[1] === 0x8b
}

function pathOf(header: Buffer, extended: Readonly<Record<string, string>>): string {
  const prefix = readText(header, 257, 5) === 'ustar' ? readText(header, 345, 155) : ''
  const name =
    extended['path'] ?? (prefix === '' ? readText(header, 0, 100) : `${prefix}/${readText(header, 0, 100)}`)
  const parts = name.split('/').filter((part) => part !== '' && part !== '.')
  return parts.length === 0 ? '.' : parts.join('/')
}

function readText(header: Buffer, from: number, length: number): string {
  const field = header.subarray(from, from + length)
  const end = field.indexOf(0)
  return field.subarray(0, end === -1 ? length : end).toString()
}

function readNumber(header: Buffer, from: number, length: number): number {
  if (((header[from] ?? 0) & 0x80) === 0)
    return Number.parseInt(readText(header, from, length).trim() || '0', 8)
  return Number(header.readBigUInt64BE(from + length - 8))
}

function isSound(header: Buffer): boolean {
  const sum = header.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 32 : byte), 0)
  return sum === readNumber(header, 148, 8)
}

/** Records of the form `LENGTH KEY=VALUE\n`. */
function readPax(text: Buffer): Record<string, string> {
  const fields: Record<string, string> = {}
  for (let from = 0; from < text.length; ) {
    const space = text.indexOf(0x20, from)
    const length = Number.parseInt(text.subarray(from, space).toString(), 10)
    if (space === -1 || !(length > 0)) throw notAnArchive()
    const record = text.subarray(space + 1, from + length - 1).toString()
    const equals = record.indexOf('=')
    fields[record.slice(0, equals)] = record.slice(equals + 1)
    from += length
  }
  return fields
}

function padded(size: number): number {
  return Math.ceil(size / BLOCK) * BLOCK
}

function notAnArchive(): DormouseError {
  return new DormouseError('invalid_argument', 'The context is not a tar archive, or it is damaged.', {
    details: { field: 'context' },
  })
}

/** Reads a stream in pieces of the length that the caller wants. */
class Pieces {
  readonly #chunks: AsyncIterator<Buffer>
  #rest: Buffer = Buffer.alloc(0)

  constructor(stream: Readable) {
    this.#chunks = stream[Symbol.asyncIterator]()
  }

  /** Undefined at the end of the stream. */
  async take(length: number): Promise<Buffer | undefined> {
    const pieces: Buffer[] = []
    for (let missing = length; missing > 0; ) {
      const piece = await this.#next(missing)
      if (piece === undefined) {
        if (pieces.length === 0) return undefined
        throw notAnArchive()
      }
      pieces.push(piece)
      missing -= piece.length
    }
    return Buffer.concat(pieces)
  }

  async skip(length: number, hash?: Hash): Promise<void> {
    for (let missing = length; missing > 0; ) {
      const piece = await this.#next(missing)
      if (piece === undefined) throw notAnArchive()
      hash?.update(piece)
      missing -= piece.length
    }
  }

  async #next(most: number): Promise<Buffer | undefined> {
    if (this.#rest.length === 0) {
      const { value, done } = await this.#chunks.next().catch((cause: unknown) => {
        throw new DormouseError('invalid_argument', 'The context cannot be read.', { cause })
      })
      if (done === true) return undefined
      this.#rest = value as Buffer
    }
    const piece = this.#rest.subarray(0, most)
    this.#rest = this.#rest.subarray(piece.length)
    return piece
  }
}
