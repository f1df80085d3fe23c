import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isOwnAddress } from '../network/addresses.ts'
import { connectionKey, type InsideEnd } from '../network/connection-end.ts'
import { type ImageFile, type ImageRecord, readImage, writeImage } from './image-file.ts'
import { findMessage, getUint, type Message, setMessage, setUint } from './message.ts'

const FILE = { type: 1, inetSocket: 4 } as const
const TYPE_INET_SOCKET = 4n
const SOCKET = {
  inode: 2,
  protocol: 5,
  state: 6,
  sourcePort: 7,
  destinationPort: 8,
  source: 11,
  destination: 12,
} as const
const STREAM = { inBytes: 1, inSeq: 2, outBytes: 3, outSeq: 4, unsentBytes: 12 } as const
const PROTOCOL_TCP = 6n
const STATE = {
  established: 1n,
  synSent: 2n,
  finWait1: 4n,
  finWait2: 5n,
  close: 7n,
  closeWait: 8n,
  lastAck: 9n,
  listen: 10n,
  closing: 11n,
}

/** What programs had written and nobody had received, of all connections that continue. Others end. */
const WRITTEN_MAX_BYTES = 32 * 1024 ** 2
/** Its program has ended its half. */
const ENDED: readonly bigint[] = [STATE.finWait1, STATE.finWait2, STATE.lastAck, STATE.closing]
/** The other side has ended its half. */
const RECEIVED_END: readonly bigint[] = [STATE.closeWait, STATE.lastAck, STATE.closing]

export interface OutsideConnections {
  /** Whether there is any: a restore has to end those that do not continue. */
  readonly isOutside: boolean
  /** Those of `keys`, as they were. */
  readonly insideEnds: readonly InsideEnd[]
}

/**
 * The other end of a connection to the outside is in the server. It is gone when the sandbox wakes, or was made anew to
 * fit. CRIU would send unsent data or finish connecting, and fail the restore because nobody replies. So this changes
 * such a connection to one with nothing left to send; the program can still read what it had received. The ends of
 * `keys` continue, and get what was unsent in another way. Changes `files`, the decoded files.img, and images in
 * `imageDir`.
 */
export async function parkOutsideConnections(
  imageDir: string,
  files: ImageFile,
  keys: ReadonlySet<string>,
): Promise<OutsideConnections> {
  let isOutside = false
  const insideEnds: InsideEnd[] = []
  let leftBytes = WRITTEN_MAX_BYTES
  for (const { message } of files.records) {
    if (getUint(message, FILE.type) !== TYPE_INET_SOCKET) continue
    const socket = findMessage(message, FILE.inetSocket)
    if (socket === undefined) throw new Error('a socket has no entry')
    if (!leadsOutside(socket)) continue
    isOutside = true
    const state = getUint(socket, SOCKET.state)
    const isConnected = parkSocket(socket)
    setMessage(message, FILE.inetSocket, socket)
    if (!isConnected) continue
    const stream = await emptyStream(imageDir, socket)
    const key = keyOfSocket(socket)
    if (!keys.has(key)) continue
    const end = describeStream(stream, state)
    leftBytes -= end.written.length
    if (leftBytes >= 0) insideEnds.push({ key, ...end })
    else leftBytes += end.written.length
  }
  return { isOutside, insideEnds }
}

function keyOfSocket(socket: Message): string {
  const end = (address: number, port: number) => ({
    address: wordsOf(socket, address),
    port: Number(getUint(socket, port)),
  })
  return connectionKey(end(SOCKET.source, SOCKET.sourcePort), end(SOCKET.destination, SOCKET.destinationPort))
}

function wordsOf(socket: Message, no: number): number[] {
  return socket.flatMap((field) => (field.no === no ? [Number(field.value)] : []))
}

/** The record is followed by received data, then by data to send. */
export function describeStream({ message, trailing }: ImageRecord, state: bigint): Omit<InsideEnd, 'key'> {
  const received = Number(getUint(message, STREAM.inBytes))
  const written = Number(getUint(message, STREAM.outBytes))
  return {
    writtenSeq: Number(getUint(message, STREAM.outSeq)),
    hasEnded: ENDED.includes(state),
    // A copy, so that the rest of the image does not stay in memory.
    written: new Uint8Array(trailing.subarray(received, received + written)),
    receivedSeq: Number(getUint(message, STREAM.inSeq)),
  }
}

export function leadsOutside(socket: Message): boolean {
  if (getUint(socket, SOCKET.protocol) !== PROTOCOL_TCP) return false
  const state = getUint(socket, SOCKET.state)
  if (state === STATE.listen || state === STATE.close || getUint(socket, SOCKET.destinationPort) === 0n)
    return false
  return !isOwnAddress(wordsOf(socket, SOCKET.destination))
}

/** Returns true when the socket stays connected. */
export function parkSocket(socket: Message): boolean {
  const state = getUint(socket, SOCKET.state)
  if (state === STATE.synSent) {
    setUint(socket, SOCKET.state, STATE.close)
    setUint(socket, SOCKET.destinationPort, 0n)
    return false
  }
  // If the peer has closed its side, the program reads up to the end of the stream without an error.
  if (RECEIVED_END.includes(state)) setUint(socket, SOCKET.state, STATE.closeWait)
  else if (state === STATE.finWait1) setUint(socket, SOCKET.state, STATE.finWait2)
  else if (state !== STATE.finWait2) setUint(socket, SOCKET.state, STATE.established)
  return true
}

/** Returns the stream as it was. */
async function emptyStream(imageDir: string, socket: Message): Promise<ImageRecord> {
  const path = join(imageDir, `tcp-stream-${getUint(socket, SOCKET.inode).toString(16)}.img`)
  const image = await readImage(path)
  const [stream] = image.records
  if (stream === undefined) throw new Error('a connection has no stream')
  const was = { message: stream.message.map((field) => ({ ...field })), trailing: stream.trailing }
  await rm(path)
  await writeImage(path, { ...image, records: image.records.map(withoutUnsent) })
  return was
}

/** The record is followed by received data, then by data to send. */
export function withoutUnsent({ message, trailing }: ImageRecord): ImageRecord {
  const received = Number(getUint(message, STREAM.inBytes))
  setUint(message, STREAM.outBytes, 0n)
  setUint(message, STREAM.unsentBytes, 0n)
  return { message, trailing: trailing.subarray(0, received) }
}
