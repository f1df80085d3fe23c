import type { ParkedEnd } from '@dormouse/engine'

/** Offsets of the numbers in a record, in words of 32 bits: see native/src/gate-ends.h. */
const WORD = {
  size: 0,
  receiveSeq: 1,
  sendSeq: 2,
  receivedBytes: 3,
  unsentBytes: 4,
  flags: 5,
  localPort: 13,
  remotePort: 14,
  local: 15,
  remote: 19,
  sendEdge: 23,
} as const
const HEADER_WORDS = 24
const WORD_BYTES = 4
const RECEIVED_END = 1
const SENT_END = 2
const MAPPED = [0, 0, new Uint32Array(Uint8Array.of(0, 0, 0xff, 0xff).buffer)[0] ?? 0]

/** What an image says about the inside end of a connection that leads to an end of this process. */
export interface InsideEnd {
  readonly key: string
  /** The sequence number behind everything that the program has written, with the end if it has ended its half. */
  readonly writtenSeq: number
  readonly hasEnded: boolean
  /** The last bytes before `writtenSeq`. */
  readonly written: Uint8Array
  /** The sequence number behind everything that the kernel has received for it, with the end of the other side. */
  readonly receivedSeq: number
  /** What it had received behind `receivedSeq`. It has to be sent once more. */
  readonly cut: Uint8Array
  /** Whether it had received the end of the other side behind `cut`. */
  readonly hasLostEnd: boolean
}

/**
 * Names a connection by its two ends as the program inside sees them. Addresses are one word (IPv4) or four, as the
 * kernel stores them.
 */
export function connectionKey(
  own: { readonly address: readonly number[]; readonly port: number },
  other: { readonly address: readonly number[]; readonly port: number },
): string {
  return [own, other].map(({ address, port }) => [...mapped(address), port].join('.')).join('>')
}

function mapped(address: readonly number[]): readonly number[] {
  return address.length === 1 ? [...MAPPED, ...address] : address
}

/** The connection whose end this is. */
export function keyOf({ record }: ParkedEnd): string {
  const words = wordsOf(record)
  const address = (at: number) => [...words.subarray(at, at + 4)]
  const port = (at: number) => words[at] ?? 0
  return connectionKey(
    { address: address(WORD.remote), port: port(WORD.remotePort) },
    { address: address(WORD.local), port: port(WORD.localPort) },
  )
}

/**
 * Makes an end fit what the image says about the other end. What the program had written and this end had not received
 * becomes received; what the program has received is no longer unsent. So after a restore neither end has to repeat
 * anything. Undefined when the two cannot belong together.
 */
export function joinEnds({ id, record }: ParkedEnd, inside: InsideEnd): ParkedEnd | undefined {
  const words = wordsOf(record)
  const flags = words[WORD.flags] ?? 0
  const word = (at: number) => words[at] ?? 0
  const hasSentEnd = (flags & SENT_END) !== 0 || inside.hasLostEnd
  const missing = bytesBetween(word(WORD.receiveSeq), inside.writtenSeq, inside.hasEnded)
  const unsent = bytesBetween(inside.receivedSeq, word(WORD.sendSeq), hasSentEnd)
  const endsLater = hasSentEnd && inside.receivedSeq !== word(WORD.sendSeq)
  if (missing < 0 || missing > inside.written.length) return undefined
  const unsentHere = unsent - inside.cut.length
  if (unsentHere < 0 || unsentHere > word(WORD.unsentBytes)) return undefined
  const bodyAt = HEADER_WORDS * WORD_BYTES
  const unsentAt = bodyAt + word(WORD.receivedBytes)
  const unsentEnd = unsentAt + word(WORD.unsentBytes)
  const received = Buffer.concat([
    record.subarray(bodyAt, unsentAt),
    inside.written.subarray(inside.written.length - missing),
  ])
  const body = Buffer.concat([received, inside.cut, record.subarray(unsentEnd - unsentHere, unsentEnd)])
  const size = bodyAt + Math.ceil(body.length / WORD_BYTES) * WORD_BYTES
  const joined = Buffer.alloc(size)
  words[WORD.size] = size
  words[WORD.receiveSeq] = inside.writtenSeq
  words[WORD.sendSeq] = inside.receivedSeq
  // A restored end has a window of its own, and this one asks for it.
  words[WORD.sendEdge] = inside.receivedSeq
  words[WORD.receivedBytes] = received.length
  words[WORD.unsentBytes] = unsent
  words[WORD.flags] = (inside.hasEnded ? RECEIVED_END : 0) | (endsLater ? SENT_END : 0)
  joined.set(new Uint8Array(words.buffer), 0)
  joined.set(body, bodyAt)
  return { id, record: joined }
}

/**
 * Makes an end fit another end that no image describes, such as one in the memory of a virtual machine: it sends again
 * what was not acknowledged, and TCP sorts out what the other end has already.
 */
export function sendUnacknowledgedAgain(end: ParkedEnd): ParkedEnd {
  const record = Buffer.from(end.record)
  const words = wordsOf(record)
  const hasSentEnd = ((words[WORD.flags] ?? 0) & SENT_END) !== 0
  const behind = (words[WORD.unsentBytes] ?? 0) + (hasSentEnd ? 1 : 0)
  words[WORD.sendSeq] = (words[WORD.sendSeq] ?? 0) - behind
  record.set(new Uint8Array(words.buffer), 0)
  return { id: end.id, record }
}

/** Names the connections of these records: the records without their bytes. */
export function withoutBytes(records: Buffer): Buffer {
  const headers: Buffer[] = []
  for (let at = 0; at + HEADER_WORDS * WORD_BYTES <= records.length; ) {
    const words = wordsOf(records.subarray(at))
    at += words[WORD.size] ?? records.length
    words[WORD.size] = HEADER_WORDS * WORD_BYTES
    words[WORD.receivedBytes] = 0
    words[WORD.unsentBytes] = 0
    headers.push(Buffer.from(words.buffer))
  }
  return Buffer.concat(headers)
}

/** How many bytes are between two sequence numbers, which wrap. An end that is behind the bytes counts as one more. */
function bytesBetween(from: number, to: number, hasEnd: boolean): number {
  const between = (to - from) | 0
  return hasEnd && between > 0 ? between - 1 : between
}

/** A copy, because a record need not be aligned. */
function wordsOf(record: Uint8Array): Uint32Array {
  return new Uint32Array(new Uint8Array(record.subarray(0, HEADER_WORDS * WORD_BYTES)).buffer)
}
