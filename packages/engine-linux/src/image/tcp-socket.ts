import { isOwnAddress } from '../network/addresses.ts'
import { connectionKey } from '../network/connection-end.ts'
import type { ImageFile, ImageRecord } from './image-file.ts'
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
const PROTOCOL_TCP = 6n

export const TCP_STATE = {
  established: 1n,
  synSent: 2n,
  finWait1: 4n,
  finWait2: 5n,
  close: 7n,
  closeWait: 8n,
  lastAck: 9n,
  listen: 10n,
  closing: 11n,
} as const

/** Its program has ended its half. */
const ENDED: readonly bigint[] = [
  TCP_STATE.finWait1,
  TCP_STATE.finWait2,
  TCP_STATE.lastAck,
  TCP_STATE.closing,
]
/** The other side has ended its half. */
const RECEIVED_END: readonly bigint[] = [TCP_STATE.closeWait, TCP_STATE.lastAck, TCP_STATE.closing]

export function hasEnded(state: bigint): boolean {
  return ENDED.includes(state)
}

export function hasReceivedEnd(state: bigint): boolean {
  return RECEIVED_END.includes(state)
}

/** The sockets in files.img that have TCP connections, with their records. */
export function* connectedSockets({
  records,
}: ImageFile): Generator<{ readonly record: ImageRecord; readonly socket: Message }> {
  for (const record of records) {
    if (getUint(record.message, FILE.type) !== TYPE_INET_SOCKET) continue
    const socket = findMessage(record.message, FILE.inetSocket)
    if (socket === undefined) throw new Error('a socket has no entry')
    if (isConnected(socket)) yield { record, socket }
  }
}

export function putSocket({ message }: ImageRecord, socket: Message): void {
  setMessage(message, FILE.inetSocket, socket)
}

/** Whether it has another end, or is about to have one. */
function isConnected(socket: Message): boolean {
  if (getUint(socket, SOCKET.protocol) !== PROTOCOL_TCP) return false
  const state = stateOf(socket)
  return (
    state !== TCP_STATE.listen && state !== TCP_STATE.close && getUint(socket, SOCKET.destinationPort) !== 0n
  )
}

export function leadsOutside(socket: Message): boolean {
  return isConnected(socket) && !isOwnAddress(wordsOf(socket, SOCKET.destination))
}

export function stateOf(socket: Message): bigint {
  return getUint(socket, SOCKET.state)
}

export function setState(socket: Message, state: bigint): void {
  setUint(socket, SOCKET.state, state)
}

/** Makes it a socket that has a port and was never connected. */
export function disconnect(socket: Message): void {
  setState(socket, TCP_STATE.close)
  setUint(socket, SOCKET.destinationPort, 0n)
}

/** Names its connection, and by the other name the connection as the other end sees it. */
export function keysOf(socket: Message): { readonly key: string; readonly otherKey: string } {
  const end = (address: number, port: number) => ({
    address: wordsOf(socket, address),
    port: Number(getUint(socket, port)),
  })
  const own = end(SOCKET.source, SOCKET.sourcePort)
  const other = end(SOCKET.destination, SOCKET.destinationPort)
  return { key: connectionKey(own, other), otherKey: connectionKey(other, own) }
}

/** The image with its sequence numbers and queues. */
export function streamName(socket: Message): string {
  return `tcp-stream-${getUint(socket, SOCKET.inode).toString(16)}.img`
}

function wordsOf(socket: Message, no: number): number[] {
  return socket.flatMap((field) => (field.no === no ? [Number(field.value)] : []))
}
