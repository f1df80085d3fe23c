import { setTimeout as sleep } from 'node:timers/promises'
import type { KV } from '@nats-io/kv'
import { expect, it } from 'vitest'
import { watchBucket } from './watch-bucket.ts'

/** A bucket of a NATS server that says of each entry that more are to come. */
function miscountedBucket(revisions: readonly number[], lastRevision: number): KV {
  async function* entries() {
    for (const revision of revisions)
      yield { key: `key-${revision}`, value: new Uint8Array(), revision, operation: 'PUT', delta: 3 }
    await new Promise(() => {})
  }
  const streamInfo = { config: { name: 'KV_test' }, state: { last_seq: lastRevision } }
  return {
    status: async () => ({ values: revisions.length, streamInfo }),
    watch: async () => Object.assign(entries(), { stop: () => {} }),
  } as unknown as KV
}

it('has told a bucket when its newest entry was told, whatever NATS counts', async () => {
  const told: string[] = []
  const listener = { put: (key: string) => void told.push(key), removed: () => {} }
  using _watch = await watchBucket(miscountedBucket([4, 7, 9], 9), listener)
  expect(told).toEqual(['key-4', 'key-7', 'key-9'])
})

it('fails when NATS does not tell all, instead of waiting without an end', async () => {
  const listener = { put: () => {}, removed: () => {} }
  const watching = watchBucket(miscountedBucket([4, 7], 9), listener, { loadMs: 20 })
  await expect(watching).rejects.toMatchObject({ code: 'cluster_unavailable' })
})

/** A bucket whose watches tell these entries, one list for each watch, and then end. */
function endingBucket(lists: readonly (readonly number[])[]) {
  const asked: (number | undefined)[] = []
  async function* entries(revisions: readonly number[]) {
    for (const revision of revisions)
      yield { key: `key-${revision}`, value: new Uint8Array(), revision, operation: 'PUT', delta: 0 }
    if (asked.length === lists.length) await new Promise(() => {})
  }
  const bucket = {
    status: async () => ({ values: 1, streamInfo: { config: { name: 'KV_test' }, state: { last_seq: 1 } } }),
    watch: async ({ resumeFromRevision }: { resumeFromRevision?: number }) => {
      asked.push(resumeFromRevision)
      return Object.assign(entries(lists[asked.length - 1] ?? []), { stop: () => {} })
    },
  } as unknown as KV
  return { asked, bucket }
}

/** A bucket whose watches fall silent: the first has told some entries, the next ones tell others. */
function silentBucket({ first, next, newest }: Record<'first' | 'next', number[]> & { newest: number }) {
  const asked: (number | undefined)[] = []
  let looks = 0
  async function* entries(revisions: readonly number[]) {
    for (const revision of revisions)
      yield { key: `key-${revision}`, value: new Uint8Array(), revision, operation: 'PUT', delta: 0 }
    await new Promise(() => {})
  }
  const bucket = {
    status: async () => {
      looks += 1
      return { values: 1, streamInfo: { config: { name: 'KV_test' }, state: { last_seq: newest } } }
    },
    watch: async ({ resumeFromRevision }: { resumeFromRevision?: number }) => {
      asked.push(resumeFromRevision)
      return Object.assign(entries(asked.length === 1 ? first : next), { stop: () => {} })
    },
  } as unknown as KV
  return { asked, bucket, looks: () => looks }
}

it('begins again after the last entry when the client of NATS gives a watch up', async () => {
  const { bucket, asked } = endingBucket([[1, 4], [5]])
  const told: string[] = []
  const listener = { put: (key: string) => void told.push(key), removed: () => {} }
  using _watch = await watchBucket(bucket, listener)
  await expect.poll(() => told, { timeout: 5_000 }).toEqual(['key-1', 'key-4', 'key-5'])
  expect(asked).toEqual([undefined, 5])
})

it('tells nothing twice when it is renewed', async () => {
  const { bucket } = endingBucket([[1, 4], [4, 5], []])
  const told: string[] = []
  const listener = { put: (key: string) => void told.push(key), removed: () => {} }
  using watch = await watchBucket(bucket, listener)
  await watch.renew()
  await expect.poll(() => told).toEqual(['key-1', 'key-4', 'key-5'])
})

it('begins again when it hears nothing of what the bucket holds', async () => {
  const { bucket, asked } = silentBucket({ first: [1], next: [4], newest: 4 })
  const told: string[] = []
  const listener = { put: (key: string) => void told.push(key), removed: () => {} }
  using _watch = await watchBucket(bucket, listener, { silentMs: 20 })
  await expect.poll(() => told, { timeout: 5_000 }).toEqual(['key-1', 'key-4'])
  expect(asked.slice(0, 2)).toEqual([undefined, 2])
})

it('does not begin again while it has told all that the bucket holds', async () => {
  const { bucket, asked, looks } = silentBucket({ first: [1, 4], next: [], newest: 4 })
  using _watch = await watchBucket(bucket, { put: () => {}, removed: () => {} }, { silentMs: 20 })
  await expect.poll(looks, { timeout: 5_000 }).toBeGreaterThan(4)
  expect(asked).toEqual([undefined])
})

it('waits for a bucket that takes long to tell, as long as something comes', async () => {
  async function* entries() {
    for (let revision = 1; revision <= 8; revision += 1) {
      await sleep(50)
      yield { key: `key-${revision}`, value: new Uint8Array(), revision, operation: 'PUT', delta: 9 }
    }
    await new Promise(() => {})
  }
  const bucket = {
    status: async () => ({ values: 8, streamInfo: { config: { name: 'KV_test' }, state: { last_seq: 8 } } }),
    watch: async () => Object.assign(entries(), { stop: () => {} }),
  } as unknown as KV
  const told: string[] = []
  const listener = { put: (key: string) => void told.push(key), removed: () => {} }
  using _watch = await watchBucket(bucket, listener, { loadMs: 200 })
  expect(told).toHaveLength(8)
})

/** A bucket whose watch hears from a server that has the entries only one after the other. */
function laggingBucket(revisions: readonly number[]): KV {
  async function* entries() {
    for (const revision of revisions) {
      await sleep(30)
      yield { key: `key-${revision}`, value: new Uint8Array(), revision, operation: 'PUT', delta: 0 }
    }
    await new Promise(() => {})
  }
  const streamInfo = { config: { name: 'KV_test' }, state: { last_seq: revisions.at(-1) } }
  return {
    status: async () => ({ values: revisions.length, streamInfo }),
    watch: async () => Object.assign(entries(), { stop: () => {} }),
  } as unknown as KV
}

it('has not told a bucket when a server that lags behind has no more', async () => {
  const told: string[] = []
  const listener = { put: (key: string) => void told.push(key), removed: () => {} }
  using _watch = await watchBucket(laggingBucket([1, 4, 5]), listener)
  expect(told).toEqual(['key-1', 'key-4', 'key-5'])
})

it('has not told a bucket when its watch ends in the middle', async () => {
  const { bucket } = endingBucket([[1], [4]])
  const status = async () => ({
    values: 2,
    streamInfo: { config: { name: 'KV_test' }, state: { last_seq: 4 } },
  })
  const told: string[] = []
  const listener = { put: (key: string) => void told.push(key), removed: () => {} }
  using _watch = await watchBucket({ ...bucket, status } as KV, listener)
  expect(told).toEqual(['key-1', 'key-4'])
})
