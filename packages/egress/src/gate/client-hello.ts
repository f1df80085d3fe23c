/** `more`: the message is not complete yet. */
export type ClientHello = 'more' | ReadHello

export interface ReadHello {
  /** Undefined: it has no server name, or one that cannot be read. */
  readonly name: string | undefined
  /** A complete ClientHello without a server name. Clients send these when they connect to an address. */
  readonly isNameless?: boolean
  /** It may ask for a name other than the visible one, encrypted. */
  readonly isEncrypted?: boolean
}

const HANDSHAKE = 0x16
const CLIENT_HELLO = 1
const SERVER_NAME = 0
/** RFC 9849, and drafts 08 and later. Decoys look the same by design. */
const ENCRYPTED_CLIENT_HELLO = 0xfe0d
/** Its predecessor, which encrypted only the name. */
const ENCRYPTED_SERVER_NAME = 0xffce
const HOST_NAME = 0

export function looksLikeTls(bytes: Buffer): boolean {
  return bytes[0] === HANDSHAKE
}

/** Reads the server name of a ClientHello (RFC 8446, RFC 6066), which may be split into records. Never throws. */
export function readClientHello(bytes: Buffer): ClientHello {
  const handshake = joinRecords(bytes)
  if (handshake === 'broken') return { name: undefined }
  if (handshake.length < 4) return 'more'
  if (handshake[0] !== CLIENT_HELLO) return { name: undefined }
  const length = handshake.readUIntBE(1, 3)
  if (handshake.length < 4 + length) return 'more'
  try {
    return readServerName(new Reader(handshake.subarray(4, 4 + length)))
  } catch {
    return { name: undefined }
  }
}

/** The handshake bytes of all complete and partial records. */
function joinRecords(bytes: Buffer): Buffer | 'broken' {
  const parts: Buffer[] = []
  let at = 0
  while (at < bytes.length) {
    if (bytes[at] !== HANDSHAKE) return 'broken'
    if (bytes.length < at + 5) break
    if (bytes[at + 1] !== 3) return 'broken'
    const length = bytes.readUInt16BE(at + 3)
    if (length === 0) return 'broken'
    parts.push(bytes.subarray(at + 5, at + 5 + length))
    at += 5 + length
  }
  return Buffer.concat(parts)
}

function readServerName(reader: Reader): ReadHello {
  reader.take(2 + 32)
  reader.take(reader.number(1))
  reader.take(reader.number(2))
  reader.take(reader.number(1))
  if (reader.isEmpty) return { name: undefined, isNameless: true }
  const extensions = new Reader(reader.take(reader.number(2)))
  let name: string | undefined
  let isEncrypted = false
  while (!extensions.isEmpty) {
    const type = extensions.number(2)
    const data = new Reader(extensions.take(extensions.number(2)))
    isEncrypted ||= type === ENCRYPTED_CLIENT_HELLO || type === ENCRYPTED_SERVER_NAME
    if (type !== SERVER_NAME) continue
    // With two names, a server might use the other one.
    if (name !== undefined) return { name: undefined }
    const names = new Reader(data.take(data.number(2)))
    if (names.number(1) !== HOST_NAME) return { name: undefined }
    name = names.take(names.number(2)).toString('latin1')
    if (!names.isEmpty) return { name: undefined }
  }
  return { name, isNameless: name === undefined && !isEncrypted, isEncrypted }
}

class Reader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isEmpty(): boolean {
    return this.#at >= this.#bytes.length
  }

  number(size: number): number {
    return this.take(size).readUIntBE(0, size)
  }

  take(size: number): Buffer {
    if (this.#at + size > this.#bytes.length) throw new RangeError('shorter than its length field')
    this.#at += size
    return this.#bytes.subarray(this.#at - size, this.#at)
  }
}
