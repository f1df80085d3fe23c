import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { InsideEnd } from '../network/connection-end.ts'
import { type ImageFile, type ImageRecord, readImage, writeImage } from './image-file.ts'
import type { Message } from './message.ts'
import {
  connectedSockets,
  disconnect,
  hasEnded,
  hasReceivedEnd,
  keysOf,
  leadsOutside,
  putSocket,
  setState,
  stateOf,
  streamName,
  TCP_STATE,
} from './tcp-socket.ts'
import { describeStream, emptiedStream, queuedBytes } from './tcp-stream.ts'

/** What was in flight, of all connections that continue: written by programs, or taken back. Others end. */
const IN_FLIGHT_MAX_BYTES = 32 * 1024 ** 2

export interface ParkOutside {
  /** Connections that continue. */
  readonly keys: ReadonlySet<string>
  /** A restore can fill the receive queue of a connection up to here. */
  readonly queueMaxBytes: number
}

export interface OutsideConnections {
  /** Whether there is any: a restore has to end those that do not continue. */
  readonly isOutside: boolean
  /** Those of `keys`, as they were. */
  readonly insideEnds: readonly InsideEnd[]
}

/**
 * The other end of a connection to the outside is in the server. It is gone when the sandbox wakes, or was made anew to
 * fit. CRIU would send unsent data or finish connecting, and fail the restore because no reply comes. So this changes
 * such a connection to one with nothing left to send; the program can still read what it had received, as far as a
 * restore can bring it back. The ends of `keys` continue, and get what was unsent, or received beyond that, in another
 * way. Changes `files`, the decoded files.img, and images in `imageDir`.
 */
export async function parkOutsideConnections(
  imageDir: string,
  files: ImageFile,
  { keys, queueMaxBytes }: ParkOutside,
): Promise<OutsideConnections> {
  let isOutside = false
  const insideEnds: InsideEnd[] = []
  let leftBytes = IN_FLIGHT_MAX_BYTES
  for (const { record, socket } of connectedSockets(files)) {
    if (!leadsOutside(socket)) continue
    isOutside = true
    const { key } = keysOf(socket)
    const before = stateOf(socket)
    const isConnected = parkSocket(socket)
    const stream = isConnected ? await emptyStream(imageDir, socket, queueMaxBytes) : undefined
    if (stream !== undefined && stream.cutBytes > 0) setState(socket, withoutReceivedEnd(before))
    putSocket(record, socket)
    if (stream === undefined || !keys.has(key)) continue
    const end = describeStream(stream.record, before, stream.cutBytes)
    const bytes = end.written.length + end.cut.length
    if (bytes > leftBytes) continue
    leftBytes -= bytes
    insideEnds.push({ key, ...end })
  }
  return { isOutside, insideEnds }
}

/** Returns true when the socket stays connected. */
export function parkSocket(socket: Message): boolean {
  const state = stateOf(socket)
  if (state === TCP_STATE.synSent) {
    disconnect(socket)
    return false
  }
  // If the peer has closed its side, the program reads up to the end of the stream without an error.
  if (hasReceivedEnd(state)) setState(socket, TCP_STATE.closeWait)
  else setState(socket, withoutReceivedEnd(state))
  return true
}

function withoutReceivedEnd(state: bigint): bigint {
  return hasEnded(state) ? TCP_STATE.finWait2 : TCP_STATE.established
}

/** Returns the stream as it was, and how many bytes were taken back. */
async function emptyStream(
  imageDir: string,
  socket: Message,
  maxBytes: number,
): Promise<{ readonly record: ImageRecord; readonly cutBytes: number }> {
  const path = join(imageDir, streamName(socket))
  const image = await readImage(path)
  const [stream] = image.records
  if (stream === undefined) throw new Error('a connection has no stream')
  const record = { message: stream.message.map((field) => ({ ...field })), trailing: stream.trailing }
  const isEnded = hasReceivedEnd(stateOf(socket))
  const emptied = emptiedStream(stream, { maxBytes, hasReceivedEnd: isEnded })
  await rm(path)
  await writeImage(path, { ...image, records: [emptied] })
  return { record, cutBytes: Math.max(0, queuedBytes(record).received - maxBytes) }
}
