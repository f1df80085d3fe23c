import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import type { ClusterKey } from './cluster-key.ts'

/** The work on chunks that threads do. */
export interface ChunkWork {
  /** The digest that names a chunk. */
  name(key: ClusterKey, chunk: Uint8Array): string
  /** Compresses and encrypts a chunk of this digest. */
  seal(key: ClusterKey, chunk: Uint8Array, digest: string): Uint8Array
  /** The reverse of `seal`. Throws when the content is not the one of this digest. */
  open(key: ClusterKey, sealed: Uint8Array, digest: string): Uint8Array
}

const COMPRESSED = 1
const PLAIN = 0
/** Compression that saves less than this part only costs time at every wake. */
const WORTH = 0.97

/** Three times as fast as deflate on memory, for the same size; leaves what cannot be compressed at once. */
const FAST = {
  params: { [constants.BROTLI_PARAM_QUALITY]: 0, [constants.BROTLI_PARAM_LGWIN]: 18 },
}

export const chunkWork: ChunkWork = {
  name: (key, chunk) => key.nameOf(chunk),
  seal: (key, chunk, digest) => {
    const small = brotliCompressSync(chunk, FAST)
    const isWorth = small.length < chunk.length * WORTH
    const body = Buffer.concat([Buffer.of(isWorth ? COMPRESSED : PLAIN), isWorth ? small : chunk])
    return key.seal(body, `chunk ${digest}`)
  },
  open: (key, sealed, digest) => {
    const body = key.open(sealed, `chunk ${digest}`)
    const chunk = body[0] === COMPRESSED ? brotliDecompressSync(body.subarray(1)) : body.subarray(1)
    if (key.nameOf(chunk) !== digest) throw new Error('the content has another digest')
    return chunk
  },
}
