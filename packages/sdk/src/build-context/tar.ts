const BLOCK = 512

/** One entry of an archive; a path that ends with a slash is a directory. */
export interface TarFile {
  readonly path: string
  readonly mode: number
  readonly sizeBytes: number
  readonly content?: () => Promise<AsyncIterable<Uint8Array> | Uint8Array>
}

/** Writes a tar archive. Long paths get an extended header, as POSIX wants it. */
export async function* tar(files: Iterable<TarFile>): AsyncGenerator<Uint8Array> {
  for (const file of files) {
    if (new TextEncoder().encode(file.path).length > 100) yield* extendedHeader(file.path)
    yield header(file.path, {
      type: file.path.endsWith('/') ? '5' : '0',
      mode: file.mode,
      size: file.sizeBytes,
    })
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

function* extendedHeader(path: string): Generator<Uint8Array> {
  const encoder = new TextEncoder()
  const body = ` path=${path}\n`
  const bytes = encoder.encode(body).length
  // The length counts its own digits.
  let length = bytes + String(bytes).length
  length = bytes + String(length).length
  const record = encoder.encode(`${length}${body}`)
  yield header('PaxHeader', { type: 'x', mode: 0o644, size: record.length })
  yield record
  yield new Uint8Array((BLOCK - (record.length % BLOCK)) % BLOCK)
}

function header(
  path: string,
  { type, mode, size }: { type: string; mode: number; size: number },
): Uint8Array {
  const block = new Uint8Array(BLOCK)
  const encoder = new TextEncoder()
  const put = (text: string, at: number, length: number) =>
    block.set(encoder.encode(text).subarray(0, length), at)
  const octal = (value: number, at: number, length: number) =>
    put(value.toString(8).padStart(length - 1, '0'), at, length - 1)
  put(path, 0, 100)
  octal(mode & 0o7777, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  octal(size, 124, 12)
  octal(0, 136, 12)
  put('        ', 148, 8)
  put(type, 156, 1)
  put('ustar\u000000', 257, 8)
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  )
  return block
}
