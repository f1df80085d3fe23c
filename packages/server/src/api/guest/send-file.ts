import { Readable } from 'node:stream'
import { hasErrorCode } from '@dormouse/contracts'
import type { FileStat } from '@dormouse/engine'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { FilesAccess } from '../../sandbox/sandbox-reader.ts'
import { disconnected } from '../event-stream.ts'
import { READER_STALL_MS } from '../limits.ts'
import { parseRange, type RangeRequest } from './byte-range.ts'
import { download } from './download.ts'
import { etagOf, fileView, lastModified, setFileHeaders } from './file-view.ts'
import { bodyPieces, discardBody } from './request-body.ts'

export const OCTETS = 'application/octet-stream'
export const fileBytes = z.unknown().meta({ type: 'string', format: 'binary' })
/** What a route that sends a file may answer. */
export const FILE_RESPONSES = {
  200: { description: 'The bytes.', content: { [OCTETS]: { schema: fileBytes } } },
  206: { description: 'The bytes of the range.', content: { [OCTETS]: { schema: fileBytes } } },
  304: z.undefined().describe('Not changed since the `ETag` in `If-None-Match`.'),
}
export const SEND_FILE_TEXT =
  'Takes `Range` (one range of bytes), `If-Range` and `If-None-Match`. If the file changes during the read, the connection ends early.'

/** Answers with the bytes of a file. */
export async function sendFile(
  request: FastifyRequest,
  reply: FastifyReply,
  { access, path, ...as }: { access: FilesAccess; path: string; user?: string },
): Promise<FastifyReply> {
  const signal = disconnected(reply)
  const look = () =>
    access.use({ cause: 'file', what: `reading ${path}`, signal }, (guest) => guest.files.stat(path, as))
  if (isMatch(request.headers['if-none-match'], await lookIf(request, 'if-none-match', look)))
    return reply.code(304).send()
  const range = usableRange(request, await lookIf(request, 'if-range', look))
  const file = await download(access, { path, ...as, range, signal }).catch((error: unknown) => {
    if (hasErrorCode(error, 'range_not_satisfiable'))
      reply.header('content-range', `bytes */${String(error.details['sizeBytes'])}`)
    throw error
  })
  setFileHeaders(reply, file.stat)
  if (file.range !== undefined) {
    const { offset, length } = file.range
    reply.code(206)
    reply.header('content-range', `bytes ${offset}-${offset + length - 1}/${file.stat.sizeBytes}`)
  }
  if (file.lengthBytes !== undefined) reply.header('content-length', file.lengthBytes)
  reply.raw.setTimeout(READER_STALL_MS, () => reply.raw.destroy())
  return reply.send(Readable.from(file.data, { objectMode: false }))
}

/** Writes the body of a request to a file. The caller sees an error also if it is still sending. */
export async function receiveFile(
  request: FastifyRequest,
  reply: FastifyReply,
  write: (pieces: ReturnType<typeof bodyPieces>, signal: AbortSignal) => Promise<FileStat>,
): Promise<ReturnType<typeof fileView>> {
  try {
    return fileView(await write(bodyPieces(request.body), disconnected(reply)))
  } catch (error) {
    await discardBody(request.body, reply)
    throw error
  }
}

async function lookIf(
  request: FastifyRequest,
  header: 'if-none-match' | 'if-range',
  look: () => Promise<FileStat>,
): Promise<FileStat | undefined> {
  return request.headers[header] === undefined ? undefined : await look()
}

function isMatch(header: string | undefined, stat: FileStat | undefined): boolean {
  if (header === undefined || stat === undefined || stat.type !== 'file') return false
  return header
    .split(',')
    .map((tag) => tag.trim())
    .some((tag) => tag === '*' || tag === etagOf(stat))
}

/** With `If-Range`, serves the range only if the file is unchanged. Our tags are weak, so only the date counts. */
function usableRange(request: FastifyRequest, stat: FileStat | undefined): RangeRequest | undefined {
  const range = parseRange(request.headers.range)
  const condition = request.headers['if-range']
  if (range === undefined || condition === undefined || stat === undefined) return range
  return condition === lastModified(stat) ? range : undefined
}
