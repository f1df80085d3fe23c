import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError } from '@dormouse/contracts'
import type { KV } from '@nats-io/kv'

/** JetStream's code for "wrong last sequence". */
const WRONG_SEQUENCE = 10071

/** Longer than a slow disk of a NATS server, shorter than a lease. */
const WRITE_TIMEOUT_MS = 4_000

export interface Versioned {
  readonly value: Uint8Array
  readonly revision: number
}

/**
 * The new revision, or undefined when the key has another revision than `expected`. `expected: 0`: there is none. Throws
 * `cluster_unavailable`; then the change may have happened.
 */
export async function compareAndSet(
  bucket: KV,
  key: string,
  { value, expected }: { value: Uint8Array | string; expected: number },
): Promise<number | undefined> {
  try {
    if (expected === 0) return await bucket.create(key, value)
    return await bucket.update(key, value, expected, WRITE_TIMEOUT_MS)
  } catch (error) {
    if (isWrongSequence(error)) return undefined
    throw silent(error)
  }
}

/**
 * The revision of a key that is new. Undefined when there is one, and also when it was removed: `compareAndSet` would
 * bring it back. Throws `cluster_unavailable`; then it may have been added.
 */
export async function addOnce(
  bucket: KV,
  key: string,
  value: Uint8Array | string,
): Promise<number | undefined> {
  try {
    return await bucket.put(key, value, { previousSeq: 0, timeout: WRITE_TIMEOUT_MS })
  } catch (error) {
    if (isWrongSequence(error)) return undefined
    throw silent(error)
  }
}

/** False when the key has another revision than `expected`. */
export async function compareAndDelete(bucket: KV, key: string, expected: number): Promise<boolean> {
  try {
    await bucket.delete(key, { previousSeq: expected })
    return true
  } catch (error) {
    if (isWrongSequence(error)) return false
    throw silent(error)
  }
}

const TRIES = 10
const PAUSE_MS = 100

/**
 * What `attempt` returns when it has read and then written, and nothing came between the two. Throws
 * `cluster_unavailable` when that does not happen: servers of NATS that disagree refuse each write.
 */
export async function untilWritten<Value>(attempt: () => Promise<Value | undefined>): Promise<Value> {
  for (let tries = 1; tries <= TRIES; tries += 1) {
    const value = await attempt()
    if (value !== undefined) return value
    await sleep(PAUSE_MS)
  }
  throw new DormouseError('cluster_unavailable', 'NATS does not take what follows from its own answers.', {
    hint: 'Its servers may disagree: see "When a disk of NATS is full" in docs/guides/cluster.md.',
    details: { retryAfterMs: 1_000 },
  })
}

/** Undefined when there is no such key, or it was deleted. */
export async function read(bucket: KV, key: string): Promise<Versioned | undefined> {
  const entry = await answered(bucket.get(key))
  if (entry === null || entry.operation !== 'PUT') return undefined
  return { value: entry.value, revision: entry.revision }
}

function isWrongSequence(error: unknown): boolean {
  const { code } = error as { code?: unknown }
  return code === WRONG_SEQUENCE
}

/** What NATS answers. Throws `cluster_unavailable`. */
export async function answered<Value>(request: Promise<Value>): Promise<Value> {
  try {
    return await request
  } catch (error) {
    throw silent(error)
  }
}

/** Whatever the client of NATS says, a caller can only try again. */
function silent(cause: unknown): DormouseError {
  return new DormouseError('cluster_unavailable', 'NATS does not answer.', {
    details: { retryAfterMs: 1_000 },
    cause,
  })
}
