import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { hasErrorCode } from '@dormouse/contracts'
import type { Guest } from '@dormouse/engine'
import busboy from 'busboy'
import type { BackendSandbox } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'
import { disconnected, sendJson } from '../http/respond.ts'
import type { Exchange } from '../http/router.ts'
import { asOwner } from './as-owner.ts'
import { absolutePath } from './paths.ts'

const FILES_MAX = 1000
/** The first bytes of a file are kept, so that root can write them again where the user may not. */
const BUFFERED_MAX_BYTES = 1024 * 1024

interface Written {
  readonly path: string
  readonly name: string
  readonly type: 'file'
}

/** Writes one file from the body, or one for each part of a multipart body. */
export async function upload(sandbox: BackendSandbox, exchange: Exchange): Promise<void> {
  const { request, response, query } = exchange
  const signal = disconnected(response)
  const user = query.get('username') ?? undefined
  const path = query.get('path')
  const type = request.headers['content-type'] ?? ''
  const written: Written[] = []
  const write = (to: string, data: AsyncIterable<Uint8Array>) =>
    sandbox.use({ cause: 'file', what: `writing ${to}`, signal }, (guest) =>
      writeFile(guest, { path: to, user, data, signal }),
    )
  if (type.startsWith('multipart/form-data')) {
    for await (const part of partsOf(request)) written.push(await write(path ?? part.filename, part.data))
  } else {
    if (path === null) throw new ApiError(400, 'the query parameter "path" is missing')
    written.push(await write(path, decoded(request)))
  }
  sendJson(response, 200, written)
}

async function writeFile(
  guest: Guest,
  options: { path: string; user: string | undefined; data: AsyncIterable<Uint8Array>; signal: AbortSignal },
): Promise<Written> {
  const { user, data, signal } = options
  const path = await absolutePath(guest, { path: options.path, ...(user && { user }) })
  const body = await buffered(data)
  try {
    const stat = await asOwner(guest, { path, user }, (as) =>
      guest.files.write(path, body(), { parents: true, signal, ...as }),
    )
    return { path: stat.path, name: stat.name, type: 'file' }
  } catch (error) {
    if (hasErrorCode(error, 'not_a_file')) throw new ApiError(400, `path is a directory: ${path}`)
    if (hasErrorCode(error, 'not_a_directory'))
      throw new ApiError(400, `a part of the path is not a directory: ${path}`)
    throw error
  }
}

/** Reads the beginning of a stream. The result yields all of it; more than once if the beginning was everything. */
async function buffered(data: AsyncIterable<Uint8Array>): Promise<() => AsyncIterable<Uint8Array>> {
  const iterator = data[Symbol.asyncIterator]()
  const head: Uint8Array[] = []
  let bytes = 0
  while (bytes < BUFFERED_MAX_BYTES) {
    const next = await iterator.next()
    if (next.done === true) break
    head.push(next.value)
    bytes += next.value.byteLength
  }
  return async function* () {
    yield* head
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) yield next.value
  }
}

function decoded(request: IncomingMessage): AsyncIterable<Uint8Array> {
  return request.headers['content-encoding'] === 'gzip' ? request.pipe(createGunzip()) : request
}

interface Part {
  readonly filename: string
  readonly data: AsyncIterable<Uint8Array>
}

/** The files of a multipart body, one after the other. Each must be read before the next comes. */
async function* partsOf(request: IncomingMessage): AsyncGenerator<Part> {
  const parser = busboy({ headers: request.headers, preservePath: true, limits: { files: FILES_MAX } })
  const parts: Part[] = []
  let isOver = false
  let failure: Error | undefined
  let wake = () => {}
  parser.on('file', (field, file, { filename }) => {
    if (field === 'file') parts.push({ filename: filename ?? '', data: file as Readable })
    else file.resume()
    wake()
  })
  const end = (error?: Error) => {
    isOver = true
    failure ??= error
    wake()
  }
  parser.on('close', () => end())
  parser.on('error', (error) => end(new ApiError(400, `the multipart body is malformed: ${error.message}`)))
  const source = decoded(request) as Readable
  source.once('error', end)
  source.pipe(parser)
  for (;;) {
    const part = parts.shift()
    if (part !== undefined) yield part
    else if (failure !== undefined) throw failure
    else if (isOver) return
    else
      await new Promise<void>((resolve) => {
        wake = resolve
      })
  }
}
