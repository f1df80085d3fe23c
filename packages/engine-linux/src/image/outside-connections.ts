import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isOwnAddress } from '../network/addresses.ts'
import { type ImageFile, type ImageRecord, readImage, writeImage } from './image-file.ts'
import { findMessage, getUint, type Message, setMessage, setUint } from './message.ts'

const FILE = { type: 1, inetSocket: 4 } as const
const TYPE_INET_SOCKET = 4n
const SOCKET = { inode: 2, protocol: 5, state: 6, destinationPort: 8, destination: 12 } as const
const STREAM = { inBytes: 1, outBytes: 3, unsentBytes: 12 } as const
const PROTOCOL_TCP = 6n
const STATE = {
  established: 1n,
  synSent: 2n,
  close: 7n,
  closeWait: 8n,
  lastAck: 9n,
  listen: 10n,
  closing: 11n,
}

/**
 * The other end of a connection to the outside is in the server, and is gone when the sandbox wakes. CRIU would send
 * unsent data or finish connecting, and fail the restore because there is no peer. So this changes such a connection to
 * one with nothing left to send; the program can still read what it had received. Returns true when there is one: the
 * caller has to end it after a restore. Changes `files`, the decoded files.img, and images in `imageDir`.
 */
export async function parkOutsideConnections(imageDir: string, files: ImageFile): Promise<boolean> {
  let isOutside = false
  for (const { message } of files.records) {
    if (getUint(message, FILE.type) !== TYPE_INET_SOCKET) continue
    const socket = findMessage(message, FILE.inetSocket)
    if (socket === undefined) throw new Error('a socket has no entry')
    if (!leadsOutside(socket)) continue
    isOutside = true
    const isConnected = parkSocket(socket)
    setMessage(message, FILE.inetSocket, socket)
    if (isConnected) await emptyStream(imageDir, socket)
  }
  return isOutside
}

export function leadsOutside(socket: Message): boolean {
  if (getUint(socket, SOCKET.protocol) !== PROTOCOL_TCP) return false
  const state = getUint(socket, SOCKET.state)
  if (state === STATE.listen || state === STATE.close || getUint(socket, SOCKET.destinationPort) === 0n)
    return false
  const words = socket.flatMap((field) => (field.no === SOCKET.destination ? [Number(field.value)] : []))
  return !isOwnAddress(words)
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
  const hasEnd = state === STATE.closeWait || state === STATE.lastAck || state === STATE.closing
  setUint(socket, SOCKET.state, hasEnd ? STATE.closeWait : STATE.established)
  return true
}

async function emptyStream(imageDir: string, socket: Message): Promise<void> {
  const path = join(imageDir, `tcp-stream-${getUint(socket, SOCKET.inode).toString(16)}.img`)
  const image = await readImage(path)
  await rm(path)
  await writeImage(path, { ...image, records: image.records.map(withoutUnsent) })
}

/** The record is followed by received data, then by data to send. */
export function withoutUnsent({ message, trailing }: ImageRecord): ImageRecord {
  const received = Number(getUint(message, STREAM.inBytes))
  setUint(message, STREAM.outBytes, 0n)
  setUint(message, STREAM.unsentBytes, 0n)
  return { message, trailing: trailing.subarray(0, received) }
}
