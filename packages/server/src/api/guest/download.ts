import { DormouseError } from '@dormouse/contracts'
import type { FileStat } from '@dormouse/engine'
import type { FilesAccess } from '../../sandbox/sandbox-reader.ts'
import { type ByteRange, type RangeRequest, resolveRange } from './byte-range.ts'
import { etagOf } from './file-view.ts'
import { firstEvent } from './first-event.ts'

export interface Download {
  readonly stat: FileStat
  readonly range: ByteRange | undefined
  /** Undefined for files that the kernel generates on reading. */
  readonly lengthBytes: number | undefined
  readonly data: AsyncIterable<Uint8Array>
}

export interface DownloadRequest {
  readonly path: string
  readonly user?: string
  readonly range: RangeRequest | undefined
  readonly signal: AbortSignal
}

/** Reads a file or a range of it. Fails when the file changes during the read. Continues across standby. */
export async function download(sandbox: FilesAccess, request: DownloadRequest): Promise<Download> {
  const { path, signal } = request
  const as = request.user === undefined ? {} : { user: request.user }
  const work = { cause: 'file', what: `reading ${path}`, signal } as const
  const range =
    request.range === undefined
      ? undefined
      : resolveRange(
          request.range,
          (await sandbox.use(work, (guest) => guest.files.stat(path, as))).sizeBytes,
        )
  const offset = range?.offset ?? 0
  let stat: FileStat | undefined
  let expectedBytes = range?.length
  let sentBytes = 0

  const parts = sandbox.attach<Uint8Array>(work, async function* (guest) {
    const length = expectedBytes === undefined ? {} : { length: expectedBytes - sentBytes }
    const file = await guest.files.open(path, { offset: offset + sentBytes, ...length, ...as, signal })
    if (stat !== undefined && etagOf(stat) !== etagOf(file.stat)) throw changed(path)
    if (stat === undefined) {
      stat = file.stat
      if (range !== undefined && range.offset + range.length > stat.sizeBytes) throw changed(path)
      // Files in /proc claim to be empty.
      expectedBytes ??= stat.sizeBytes === 0 ? undefined : stat.sizeBytes
    }
    for await (const piece of file.data) {
      // The file may have grown since it was opened, but its length was already sent.
      const room = expectedBytes === undefined ? piece.byteLength : expectedBytes - sentBytes
      if (room === 0) return
      const part = piece.byteLength > room ? piece.subarray(0, room) : piece
      sentBytes += part.byteLength
      yield part
    }
    if (expectedBytes !== undefined && sentBytes < expectedBytes) throw changed(path)
  })
  const { first, all } = await firstEvent(parts)
  if (stat === undefined) throw new DormouseError('internal', 'a download ended before its file was opened')
  return { stat, range, lengthBytes: first === undefined ? 0 : expectedBytes, data: all }
}

function changed(path: string): DormouseError {
  return new DormouseError('conflict', `${path}: changed while it was read`, { hint: 'Read it again.' })
}
