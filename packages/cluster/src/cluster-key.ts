import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import { DormouseError } from '@dormouse/contracts'

const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** By how much sealed bytes are longer. */
export const SEAL_BYTES = NONCE_BYTES + TAG_BYTES
const SLICE_BYTES = 64 * 1024

/** The secret that all hosts of a cluster share. What they keep in NATS is encrypted with it. */
export class ClusterKey {
  /** Proves the key without showing it. */
  readonly proof: string
  /** For a thread of this process, which makes its own. */
  readonly secret: Uint8Array
  readonly #key: Buffer
  readonly #naming: Buffer
  readonly #signing: Buffer

  constructor(key: Uint8Array) {
    if (key.length !== KEY_BYTES)
      throw new DormouseError('setup_failed', `A cluster key has ${KEY_BYTES} bytes (saw ${key.length}).`)
    this.secret = new Uint8Array(key)
    this.#key = createHmac('sha256', key).update('encryption').digest()
    this.#naming = createHmac('sha256', key).update('naming').digest()
    this.#signing = createHmac('sha256', key).update('signing').digest()
    this.proof = createHmac('sha256', key).update('proof').digest('hex')
  }

  static create(): Buffer {
    return randomBytes(KEY_BYTES)
  }

  /** A name for content that says nothing about it to a reader without the key. */
  nameOf(content: Uint8Array | string): string {
    const digest = createHash('sha256').update(content).digest()
    return createHmac('sha256', this.#naming).update(digest).digest('hex').slice(0, 48)
  }

  /** Proves to another host that this one said so. */
  sign(text: string): string {
    return createHmac('sha256', this.#signing).update(text).digest('base64url')
  }

  isSigned(text: string, signature: string): boolean {
    const expected = Buffer.from(this.sign(text))
    const seen = Buffer.from(signature)
    return expected.length === seen.length && timingSafeEqual(expected, seen)
  }

  /** `context` must be the same when it is opened: sealed bytes cannot be put in another place. */
  seal(plain: Uint8Array | string, context: string): Buffer {
    const bytes = typeof plain === 'string' ? Buffer.from(plain) : plain
    const out = Buffer.alloc(bytes.length + SEAL_BYTES)
    this.sealInto(out, [bytes], context)
    return out
  }

  /** Like `seal`, into memory of the caller. Returns how much of it is used: `SEAL_BYTES` more than the pieces have. */
  sealInto(out: Uint8Array, pieces: readonly Uint8Array[], context: string): number {
    const nonce = randomBytes(NONCE_BYTES)
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce).setAAD(Buffer.from(context))
    let filled = SEAL_BYTES
    // In slices, whose results are small enough for memory that was used before.
    for (const piece of pieces)
      for (let at = 0; at < piece.length; at += SLICE_BYTES) {
        const sealed = cipher.update(piece.subarray(at, at + SLICE_BYTES))
        out.set(sealed, filled)
        filled += sealed.length
      }
    cipher.final()
    out.set(nonce)
    out.set(cipher.getAuthTag(), NONCE_BYTES)
    return filled
  }

  /** Throws `snapshot_unusable` when the bytes were changed or sealed with another key. */
  open(sealed: Uint8Array, context: string): Buffer {
    const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength)
    const nonce = bytes.subarray(0, NONCE_BYTES)
    const tag = bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES)
    try {
      const decipher = createDecipheriv('aes-256-gcm', this.#key, nonce, { authTagLength: TAG_BYTES })
      decipher.setAAD(Buffer.from(context)).setAuthTag(tag)
      const plain = decipher.update(bytes.subarray(SEAL_BYTES))
      // Has no bytes: it only compares the tag.
      decipher.final()
      return plain
    } catch (cause) {
      throw new DormouseError('snapshot_unusable', 'Data of the cluster is damaged.', {
        details: { reason: 'it was changed, or sealed with another key', damaged: true },
        cause,
      })
    }
  }
}
