import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import { type ClusterKey, SEAL_BYTES } from './cluster-key.ts'

/** The work on chunks that threads do. */
export interface ChunkWork {
  /** The digest that names a chunk. */
  name(key: ClusterKey, chunk: Uint8Array): string
  /**
   * Compresses and encrypts a chunk of this digest into `out`, which is longer by `SEALED_MORE_BYTES`. Returns the part
   * of it that is used.
   */
  seal(
    key: ClusterKey,
    chunk: Uint8Array,
    digest: string,
    out: Uint8Array<ArrayBuffer>,
  ): Uint8Array<ArrayBuffer>
  /** The reverse of `seal`. Throws when the content is not the one of this digest. */
  open(key: ClusterKey, sealed: Uint8Array, digest: string): Uint8Array
}

/** By how much a chunk may be longer when it is sealed. */
export const SEALED_MORE_BYTES = SEAL_BYTES + 1
const COMPRESSED = 1
const PLAIN = 0
/** Compression that saves less than this part only costs time at every wake. */
const WORTH = 0.97
const SAMPLES = 4
const SAMPLE_BYTES = 2 * 1024

/** Larger than any chunk that a host makes. What expands to more is no chunk. */
const CHUNK_MAX_BYTES = 4 * 1024 ** 2
const expand = (small: Uint8Array) => brotliDecompressSync(small, { maxOutputLength: CHUNK_MAX_BYTES })

/** Three times as fast as deflate on memory, for the same size; leaves what cannot be compressed at once. */
const FAST = {
  params: { [constants.BROTLI_PARAM_QUALITY]: 0, [constants.BROTLI_PARAM_LGWIN]: 18 },
}

export const chunkWork: ChunkWork = {
  name: (key, chunk) => key.nameOf(chunk),
  seal: (key, chunk, digest, out) => {
    const small = seemsDense(chunk) ? chunk : brotliCompressSync(chunk, FAST)
    const isWorth = small.length < chunk.length * WORTH
    const body = [Buffer.of(isWorth ? COMPRESSED : PLAIN), isWorth ? small : chunk]
    return out.subarray(0, key.sealInto(out, body, `chunk ${digest}`))
  },
  open: (key, sealed, digest) => {
    const body = key.open(sealed, `chunk ${digest}`)
    const chunk = body[0] === COMPRESSED ? expand(body.subarray(1)) : body.subarray(1)
    if (key.nameOf(chunk) !== digest) throw new Error('the content has another digest')
    return chunk
  },
}

/** Samples that cannot be compressed stand for the whole chunk: looking at all of it takes longer than encrypting it. */
function seemsDense(chunk: Uint8Array): boolean {
  if (chunk.length < 2 * SAMPLES * SAMPLE_BYTES) return false
  const step = Math.floor((chunk.length - SAMPLE_BYTES) / (SAMPLES - 1))
  const samples = Array.from({ length: SAMPLES }, (_, index) =>
    chunk.subarray(index * step, index * step + SAMPLE_BYTES),
  )
  return brotliCompressSync(Buffer.concat(samples), FAST).length >= SAMPLES * SAMPLE_BYTES * WORTH
}
