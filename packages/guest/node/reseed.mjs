import { randomInt, randomUUID } from 'node:crypto'
import { closeSync, openSync, readSync } from 'node:fs'
import { createRequire } from 'node:module'

/** Node draws bytes for this many UUIDs, and for this many integers, ahead of need. */
const CACHED_UUIDS = 128
const CACHED_INTEGERS = 1024

/** Of OpenSSL, for TLS and node:crypto. False: copies of this process would draw the same bytes. */
export function reseedOpenssl() {
  let isReseeded = false
  try {
    isReseeded = createRequire(import.meta.url)('./reseed.node').reseed()
  } catch {
    // A Node without OpenSSL, or a host without a compiler.
  }
  for (let drawn = 0; drawn < CACHED_UUIDS; drawn += 1) randomUUID()
  for (let drawn = 0; drawn < CACHED_INTEGERS; drawn += 1) randomInt(2)
  return isReseeded
}

const native = Math.random
/** @type {(() => number) | undefined} */
let ours

/**
 * Gives Math.random a new seed: V8 offers no way to, and copies of a process would draw the same numbers. Keeps a
 * function that user code has put in its place.
 */
export function reseedMathRandom() {
  if (Math.random !== native && Math.random !== ours) return
  const next = generatorOf(seedFromLinux())
  // 53 bits, as many as a number below 1 can hold.
  ours = () => ((next() >>> 5) * 67_108_864 + (next() >>> 6)) / 9_007_199_254_740_992
  Math.random = Object.defineProperty(ours, 'name', { value: 'random' })
}

/** From Linux, not from OpenSSL, whose generator is part of the copy. */
function seedFromLinux() {
  const seed = Buffer.alloc(16)
  const file = openSync('/dev/urandom', 'r')
  readSync(file, seed)
  closeSync(file)
  return seed
}

/** The generator sfc32. @param {Buffer} seed */
function generatorOf(seed) {
  let a = seed.readInt32LE(0)
  let b = seed.readInt32LE(4)
  let c = seed.readInt32LE(8)
  let counter = seed.readInt32LE(12)
  return () => {
    const sum = (a + b + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (((c << 21) | (c >>> 11)) + sum) | 0
    return sum
  }
}
