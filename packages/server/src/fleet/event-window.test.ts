import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SandboxId } from '@dormouse/contracts'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Database, openDatabase } from '../store/database.ts'
import { jobMigrations } from '../store/migrations/index.ts'
import { EventFeed } from './event-feed.ts'
import { EventRows } from './event-rows.ts'

const caller = { keyId: 'a', isAdmin: true }
const [one, two] = ['sb-1111111111111111', 'sb-2222222222222222'] as [SandboxId, SandboxId]

let directory: string
let db: Database
let feed: EventFeed
let now = 1_000
let isDiskFull = false
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-events-'))
  now = 1_000
  isDiskFull = false
  start()
})
afterEach(() => {
  feed[Symbol.dispose]()
  db.close()
  rmSync(directory, { recursive: true })
})

function start(): void {
  db = openDatabase({ path: join(directory, 'jobs.db'), migrations: jobMigrations, synchronous: 'FULL' })
  feed = new EventFeed(() => now, {
    rows: new EventRows(db),
    onWrite: () => {
      if (isDiskFull) throw new Error('as on a full disk')
    },
    onError: (error) => isDiskFull || expect.unreachable(String(error)),
  })
}

/** As after `kill -9` when everything was written. */
function restart(): void {
  feed[Symbol.dispose]()
  db.close()
  now += 1_000
  start()
}

const happen = (count: number, owner = 'a') => {
  for (let number = 0; number < count; number += 1)
    feed.publish({ type: 'sandbox.ledger', owner, sandboxId: one, data: () => ({ number }) })
}
const show = (sandboxId: SandboxId, count: number, type = 'sandbox.usage' as const) => {
  for (let number = 0; number < count; number += 1)
    feed.publish({ type, owner: 'a', sandboxId, data: () => ({ number }) })
}

interface Read {
  readonly seq: number
  readonly type: string
  readonly data: { readonly number?: number }
}

/** Everything that a reader gets that had `after`, until the last event. */
async function read(after: number, as = caller): Promise<Read[]> {
  feed.publish({ type: 'job.ended', owner: undefined, data: () => ({}) })
  const got: Read[] = []
  const { signal } = new AbortController()
  for await (const event of feed.follow({ after, caller: as, signal })) {
    if (event.type === 'job.ended') break
    got.push(event as Read)
  }
  return got
}

const numbers = (events: readonly Read[]) =>
  events.map(({ type, data }) => (type === 'gap' ? 'gap' : data.number))
const upTo = (count: number) => Array.from({ length: count }, (_, number) => number)

test('a reader that is 9,990 events behind gets each of them from disk, in order and without a gap', async () => {
  const first = now * 1_000
  happen(9_990)
  const events = await read(first)
  expect(numbers(events)).toEqual(upTo(9_990))
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => first + 1 + index))
  // It continues anywhere, also where the disk ends and memory begins.
  for (const taken of [1, 255, 256, 1_234, 5_893, 5_894, 5_895, 9_989])
    expect(numbers(await read(first + taken))).toEqual(upTo(9_990).slice(taken))
})

test('changes and samples push no event out; of those, the last one of each sandbox is left', async () => {
  const first = now * 1_000
  happen(3)
  show(one, 9_000)
  show(two, 1)
  show(one, 9_000)
  const events = await read(first)
  expect(numbers(events.slice(0, 3))).toEqual([0, 1, 2])
  expect(events.some(({ type }) => type === 'gap')).toBe(false)
  expect(events.filter(({ data, type }) => type === 'sandbox.usage' && data.number === 0)).toHaveLength(1)
  expect(events.at(-1)).toMatchObject({ type: 'sandbox.usage', data: { number: 8_999 } })
})

test('a reader of before a restart gets all that was written, a gap at the restart, and what came since', async () => {
  const first = now * 1_000
  happen(6_000)
  restart()
  happen(9)
  expect(numbers(await read(first))).toEqual([...upTo(6_000), 'gap', ...upTo(9)])
  // The gap stays where it is when the restart is long ago.
  show(two, 9_000)
  const events = (await read(first + 5_998)).filter(({ type }) => type !== 'sandbox.usage')
  expect(numbers(events)).toEqual([5_998, 5_999, 'gap', ...upTo(9)])
})

test('a reader whose next events were deleted gets a gap there, and then what is left', async () => {
  const first = now * 1_000
  happen(12_000)
  feed.write()
  for (const begin of ['this server', 'the next one']) {
    const [gap, ...events] = await read(first + 10)
    expect(gap, begin).toMatchObject({ type: 'gap' })
    expect(events.length, begin).toBeGreaterThanOrEqual(9_998)
    expect(events[0]?.seq, begin).toBe((gap?.seq ?? 0) + 1)
    restart()
  }
})

test('events that a full disk refused leave a gap once they are not in memory any more', async () => {
  const first = now * 1_000
  happen(10)
  feed.write()
  isDiskFull = true
  happen(10)
  feed.write()
  isDiskFull = false
  expect(numbers(await read(first))).toEqual([...upTo(10), ...upTo(10)])
  show(two, 9_000)
  const events = (await read(first)).filter(({ type }) => type !== 'sandbox.usage')
  expect(numbers(events)).toEqual([...upTo(10), 'gap'])
})

test('a key reads its own events only, also from disk', async () => {
  const first = now * 1_000
  happen(600, 'b')
  happen(2)
  show(one, 9_000)
  const events = await read(first, { keyId: 'a', isAdmin: false })
  expect(numbers(events).slice(0, 2)).toEqual([0, 1])
})

test('a host of a cluster remembers as many events of all hosts, and says where older ones are missing', async () => {
  const beforeSeq = 5_000_000_000
  feed.join({ send: async () => {} }, { baseSeq: beforeSeq - 1, beforeSeq, lastSeq: beforeSeq })
  let seq = beforeSeq
  const hear = (count: number, type: 'sandbox.ledger' | 'sandbox.usage') => {
    for (let number = 0; number < count; number += 1) {
      seq += 1
      feed.receive(seq, { type, owner: 'a', sandboxId: one, atMs: now, data: { number } }, false)
    }
  }
  const readAll = async (after: number) => {
    hear(1, 'sandbox.ledger')
    const got: Read[] = []
    for await (const event of feed.follow({ after, caller, signal: new AbortController().signal })) {
      got.push(event as Read)
      if (event.seq === seq) break
    }
    return got
  }
  hear(9_000, 'sandbox.ledger')
  hear(9_000, 'sandbox.usage')
  const all = await readAll(beforeSeq)
  expect(numbers(all.filter(({ type }) => type !== 'sandbox.usage'))).toEqual([...upTo(9_000), 0])
  expect(numbers(await readAll(beforeSeq + 8_998)).slice(0, 2)).toEqual([8_998, 8_999])
  hear(20_000, 'sandbox.ledger')
  const [gap, ...events] = await readAll(beforeSeq + 8_000)
  expect(gap).toMatchObject({ type: 'gap' })
  expect(events.length).toBeGreaterThan(10_000)
  expect(events[0]?.seq).toBe((gap?.seq ?? 0) + 1)
})
