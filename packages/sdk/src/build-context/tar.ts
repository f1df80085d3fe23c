const BLOCK = 512

/** One entry of an archive; a path that ends with a slash is a directory. */
export interface TarFile {
  readonly path: string
  readonly mode: number
  readonly sizeBytes: number
  readonly content?: () => Promise<AsyncIterable<Uint8Array> | Uint8Array>
  /** What a symbolic link points to. */
  readonly link?: string
}

/** Names of files and targets of links that do not fit into a header. */
const NAME_MAX_BYTES = 100

/** Writes a tar archive. Long names get an extended header, as POSIX wants it. */
export async function* tar(files: Iterable<TarFile>): AsyncGenerator<Uint8Array> {
  for (const file of files) {
    const { path, mode, sizeBytes: size, link = '' } = file
    const long = Object.entries({ path, linkpath: link }).filter(
      ([, text]) => byteLength(text) > NAME_MAX_BYTES,
    )
    if (long.length > 0) yield* extendedHeader(long)
    const type = file.link !== undefined ? '2' : path.endsWith('/') ? '5' : '0'
    yield header(path, { type, mode, size, link })
    if (file.content === undefined) continue
    let written = 0
    const content = await file.content()
    for await (const piece of content instanceof Uint8Array ? [content] : content) {
      written += piece.length
      yield piece
    }
    if (written !== file.sizeBytes) throw new Error(`${file.path} changed while it was read`)
    yield new Uint8Array((BLOCK - (written % BLOCK)) % BLOCK)
  }
  yield new Uint8Array(2 * BLOCK)
}

function* extendedHeader(fields: readonly (readonly [name: string, value: string])[]): Generator<Uint8Array> {
  const records = new TextEncoder().encode(fields.map(([name, value]) => record(name, value)).join(''))
  yield header('PaxHeader', { type: 'x', mode: 0o644, size: records.length, link: '' })
  yield records
  yield new Uint8Array((BLOCK - (records.length % BLOCK)) % BLOCK)
}

/** The length in front counts its own digits. */
function record(name: string, value: string): string {
  const body = ` ${name}=${value}\n`
  const bytes = byteLength(body)
  const guess = bytes + String(bytes).length
  return `${bytes + String(guess).length}${body}`
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length
}

function header(
  path: string,
  { type, mode, size, link }: { type: string; mode: number; size: number; link: string },
): Uint8Array {
  const block = new Uint8Array(BLOCK)
  const encoder = new TextEncoder()
  const put = (text: string, at: number, length: number) =>
    block.set(encoder.encode(text).subarray(0, length), at)
  const octal = (value: number, at: number, length: number) =>
    put(value.toString(8).padStart(length - 1, '0'), at, length - 1)
  put(path, 0, NAME_MAX_BYTES)
  octal(mode & 0o7777, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  octal(size, 124, 12)
  octal(0, 136, 12)
  put('        ', 148, 8)
  put(type, 156, 1)
  put(link, 157, NAME_MAX_BYTES)
  put('ustar\u000000', 257, 8)
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  )
  return block
}
