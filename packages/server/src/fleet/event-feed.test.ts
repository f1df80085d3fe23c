import { expect, test } from 'vitest'
import { EventFeed, type NewEvent } from './event-feed.ts'

const admin = { keyId: 'a', isAdmin: true }
const signal = new AbortController().signal
const event = (owner: string, number: number): NewEvent => ({
  type: 'sandbox.ledger',
  owner,
  data: () => ({ number }),
})

async function take(events: AsyncGenerator<object>, count: number): Promise<unknown[]> {
  const taken = []
  while (taken.length < count) taken.push((await events.next()).value)
  return taken
}

test('a reader starts with a gap and gets what happens afterwards, in order', async () => {
  const feed = new EventFeed(() => 1000)
  feed.publish(event('a', 0))
  const events = feed.follow({ after: undefined, caller: admin, signal })
  expect(await take(events, 1)).toMatchObject([{ type: 'gap', seq: 1_000_001 }])
  const next = take(events, 2)
  feed.publish(event('a', 1))
  feed.publish(event('b', 2))
  expect(await next).toMatchObject([
    { seq: 1_000_002, data: { number: 1 } },
    { seq: 1_000_003, data: { number: 2 } },
  ])
})

test('a reader continues after the last event that it has', async () => {
  const feed = new EventFeed(() => 1000)
  for (const number of [1, 2, 3]) feed.publish(event('a', number))
  const events = feed.follow({ after: 1_000_001, caller: admin, signal })
  expect(await take(events, 2)).toMatchObject([{ data: { number: 2 } }, { data: { number: 3 } }])
})

test('a reader from before a restart, or too far behind, gets a gap, and then what is known', async () => {
  const before = new EventFeed(() => 1000)
  before.publish(event('a', 1))
  const restarted = new EventFeed(() => 2000)
  expect(await take(restarted.follow({ after: 1_000_001, caller: admin, signal }), 1)).toMatchObject([
    { type: 'gap', seq: 2_000_000 },
  ])
  for (let number = 0; number < 20_000; number += 1) restarted.publish(event('a', number))
  const late = restarted.follow({ after: 2_000_001, caller: admin, signal })
  const [gap, next] = (await take(late, 2)) as { seq: number }[]
  expect(gap).toMatchObject({ type: 'gap' })
  expect(next).toMatchObject({ type: 'sandbox.ledger', seq: (gap?.seq ?? 0) + 1 })
  expect(gap?.seq).toBeGreaterThan(2_000_001)
})

test('a key sees its own sandboxes only', async () => {
  const feed = new EventFeed(() => 1000)
  for (const owner of ['a', 'b', 'a']) feed.publish(event(owner, owner === 'a' ? 1 : 2))
  const events = feed.follow({ after: 1_000_000, caller: { keyId: 'a', isAdmin: false }, signal })
  expect(await take(events, 2)).toMatchObject([{ data: { number: 1 } }, { data: { number: 1 } }])
})

test('many changes of one sandbox are one event, with its newest state', async () => {
  const feed = new EventFeed(() => 1000)
  const id = 'sb-2222222222222222' as NonNullable<NewEvent['sandboxId']>
  for (let number = 0; number < 50; number += 1)
    feed.publish({ type: 'sandbox.changed', owner: 'a', sandboxId: id, data: () => ({ number }) })
  feed.publish(event('a', 99))
  const events = feed.follow({ after: 1_000_000, caller: admin, signal })
  expect(await take(events, 2)).toMatchObject([{ data: { number: 49 } }, { data: { number: 99 } }])
})

test('a stream ends with its reader', async () => {
  const feed = new EventFeed(() => 1000)
  const gone = new AbortController()
  const events = feed.follow({ after: undefined, caller: admin, signal: gone.signal })
  await take(events, 1)
  const next = events.next()
  gone.abort()
  expect(await next).toEqual({ done: true, value: undefined })
})
