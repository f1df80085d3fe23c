import { once } from 'node:events'
import { hasErrorCode } from '@dormouse/contracts'
import type { FileStat, Guest } from '@dormouse/engine'
import type { BackendSandbox } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'
import { disconnected, sendNothing } from '../http/respond.ts'
import type { Exchange } from '../http/router.ts'
import { absolutePath } from './paths.ts'

/** Sends a file, or the part of it that a `Range` header asks for. */
export async function download(sandbox: BackendSandbox, exchange: Exchange): Promise<void> {
  const { request, response, query } = exchange
  const user = query.get('username')
  const signal = disconnected(response)
  await sandbox.use({ cause: 'file', what: 'reading a file', signal }, async (guest) => {
    const path = await absolutePath(guest, { path: query.get('path') ?? '', ...(user && { user }) })
    const stat = await statFile(guest, path)
    const modified = new Date(stat.modifiedAt).toUTCString()
    const etag = `"${Math.round(stat.modifiedAt).toString(16)}-${stat.sizeBytes.toString(16)}"`
    const headers = { 'last-modified': modified, 'accept-ranges': 'bytes', vary: 'Accept-Encoding', etag }
    if (isUnchanged(request.headers, { etag, modifiedAt: stat.modifiedAt })) {
      response.writeHead(304, headers)
      response.end()
      return
    }
    const range = rangeOf(request.headers.range, stat.sizeBytes)
    if (range === 'unsatisfiable') {
      response.setHeader('content-range', `bytes */${stat.sizeBytes}`)
      sendNothing(response, 416)
      return
    }
    const { offset, length } = range ?? { offset: 0, length: stat.sizeBytes }
    const file = await guest.files.open(path, { user: 'root', offset, length, signal })
    response.writeHead(range === undefined ? 200 : 206, {
      ...headers,
      'content-type': 'application/octet-stream',
      'content-disposition': `inline; filename="${encodeURIComponent(stat.name)}"`,
      ...(range !== undefined && {
        'content-range': `bytes ${offset}-${offset + length - 1}/${stat.sizeBytes}`,
      }),
      // A file that is written to meanwhile ends where it ends.
      ...(range !== undefined && { 'content-length': length }),
    })
    for await (const piece of file.data) if (!response.write(piece)) await once(response, 'drain', { signal })
    response.end()
  })
}

async function statFile(guest: Guest, path: string): Promise<FileStat> {
  try {
    const stat = await guest.files.stat(path, { user: 'root', follow: true })
    if (stat.type === 'directory') throw new ApiError(400, `path '${path}' is a directory`)
    return stat
  } catch (error) {
    if (hasErrorCode(error, 'not_found')) throw new ApiError(404, `path '${path}' does not exist`)
    throw error
  }
}

function isUnchanged(
  headers: Exchange['request']['headers'],
  { etag, modifiedAt }: { etag: string; modifiedAt: number },
): boolean {
  const match = headers['if-none-match']
  if (match !== undefined) return match === '*' || match.split(/, */).includes(etag)
  const since = headers['if-modified-since']
  return since !== undefined && Math.floor(modifiedAt / 1000) * 1000 <= Date.parse(since)
}

function rangeOf(
  header: string | undefined,
  sizeBytes: number,
): { offset: number; length: number } | 'unsatisfiable' | undefined {
  const [, from = '', to = ''] = /^bytes=(\d*)-(\d*)$/.exec(header ?? '') ?? []
  if (from === '' && to === '') return undefined
  const offset = from === '' ? Math.max(0, sizeBytes - Number(to)) : Number(from)
  const last = from === '' || to === '' ? sizeBytes - 1 : Math.min(Number(to), sizeBytes - 1)
  return offset > last ? 'unsatisfiable' : { offset, length: last - offset + 1 }
}
