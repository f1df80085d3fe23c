import type { InsideEnd } from '../network/connection-end.ts'
import type { ImageRecord } from './image-file.ts'
import { findUint, getUint, type Message, setUint } from './message.ts'
import { hasEnded, hasReceivedEnd } from './tcp-socket.ts'

/** The record is followed by received data, then by data to send. */
const STREAM = {
  inBytes: 1,
  inSeq: 2,
  outBytes: 3,
  outSeq: 4,
  unsentBytes: 12,
  sendWindowFrom: 13,
  receiveWindow: 16,
  receiveWindowFrom: 17,
} as const

export interface QueuedBytes {
  readonly received: number
  /** With those that were not sent yet. */
  readonly written: number
  readonly unsent: number
}

export function queuedBytes({ message }: Pick<ImageRecord, 'message'>): QueuedBytes {
  return {
    received: Number(getUint(message, STREAM.inBytes)),
    written: Number(getUint(message, STREAM.outBytes)),
    unsent: Number(findUint(message, STREAM.unsentBytes) ?? 0n),
  }
}

/** Returns false when everything was sent. */
export function countAsSent({ message }: ImageRecord): boolean {
  if ((findUint(message, STREAM.unsentBytes) ?? 0n) === 0n) return false
  setUint(message, STREAM.unsentBytes, 0n)
  return true
}

/** What a stream says about its end, with `cutBytes` of what it had received taken back. */
export function describeStream(
  { message, trailing }: ImageRecord,
  state: bigint,
  cutBytes: number,
): Omit<InsideEnd, 'key'> {
  const { received, written } = queuedBytes({ message })
  const hasLostEnd = cutBytes > 0 && hasReceivedEnd(state)
  return {
    writtenSeq: Number(getUint(message, STREAM.outSeq)),
    hasEnded: hasEnded(state),
    // Copies, so that the rest of the image does not stay in memory.
    written: new Uint8Array(trailing.subarray(received, received + written)),
    cut: new Uint8Array(trailing.subarray(received - cutBytes, received)),
    hasLostEnd,
    receivedSeq: wrap(Number(getUint(message, STREAM.inSeq)) - cutBytes - Number(hasLostEnd)),
  }
}

/**
 * Keeps what was received, up to `maxBytes`, and nothing of what was to be sent. `hasReceivedEnd` says whether an end
 * is behind what was received; it is cut with the bytes before it.
 */
export function emptiedStream(
  { message, trailing }: ImageRecord,
  { maxBytes, hasReceivedEnd: isEnded }: { readonly maxBytes: number; readonly hasReceivedEnd: boolean },
): ImageRecord {
  const { received } = queuedBytes({ message })
  const kept = Math.min(received, maxBytes)
  setUint(message, STREAM.outBytes, 0n)
  setUint(message, STREAM.unsentBytes, 0n)
  if (kept < received) cutReceived(message, { kept, cut: received - kept + Number(isEnded) })
  return { message, trailing: trailing.subarray(0, kept) }
}

function cutReceived(message: Message, { kept, cut }: { kept: number; cut: number }): void {
  const inSeq = wrap(Number(getUint(message, STREAM.inSeq)) - cut)
  setUint(message, STREAM.inBytes, BigInt(kept))
  setUint(message, STREAM.inSeq, BigInt(inSeq))
  const windowFrom = findUint(message, STREAM.receiveWindowFrom)
  if (windowFrom === undefined) return
  // The other end may send as far as it could before. The kernel refuses a window that begins behind what was received.
  const edge = Number(windowFrom) + Number(getUint(message, STREAM.receiveWindow))
  setUint(message, STREAM.receiveWindowFrom, BigInt(inSeq))
  setUint(message, STREAM.receiveWindow, BigInt(wrap(edge - inSeq)))
  setUint(message, STREAM.sendWindowFrom, BigInt(inSeq))
}

/** Sequence numbers have 32 bits. */
function wrap(seq: number): number {
  return seq >>> 0
}
