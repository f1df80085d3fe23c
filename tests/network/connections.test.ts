import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TEST_ISOLATION } from '../test-isolation.ts'
import { World } from './world/world.ts'

let world: World
let outside: ChildProcess
beforeAll(async () => {
  world = await World.make()
  outside = await world.startOutside('echo.mjs')
})
afterAll(() => world?.[Symbol.asyncDispose]())

/** A connection to the echo server, and what a program does with it. */
const CONNECT = `
import hashlib, os
echo = socket.create_connection(("web.example", 7007)); echo.settimeout(20)
echo6 = socket.create_connection(("2a00:22:33::44", 7007)); echo6.settimeout(20)
def say(text, to=None):
    to = to or echo
    to.sendall(text.encode()); got = b""
    while len(got) < len(text):
        more = to.recv(65536)
        if not more: return got.decode() + " END"
        got += more
    return got.decode()
def listen(to=None):
    try: return (to or echo).recv(100).decode() or "ended"
    except OSError as error: return type(error).__name__
`

const standby = (id: string, tier: string) =>
  world.server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier } })
const connected = async () => {
  const id = await world.create()
  await world.server.run(id, CONNECT)
  expect(await world.inside(id, 'say("first")')).toBe('first')
  return id
}

/** What a program finds on both of its connections that did not survive: never an orderly end. */
const RESETS = '[listen(), listen(echo6)]'
/** The guest's kernel ends connections without another end itself, with ECONNABORTED. */
const LOST =
  TEST_ISOLATION === 'microvm'
    ? expect.stringMatching(/^Connection(Reset|Aborted)Error$/)
    : 'ConnectionResetError'
const BOTH_RESET = [LOST, LOST]

/** What the ledger says about connections that ended. */
const losses = async (id: string) => {
  const { items } = await world.server.ok(`/v1/sandboxes/${id}/ledger`)
  return items.flatMap(({ event, cause, detail }: { event: string; cause: string; detail: string }) =>
    event === 'disconnected' ? [`${cause}: ${detail}`] : [],
  )
}
/** Both connections of `connected`, lost at once. The name of the second depends on what was looked up before. */
const both = (cause: string) => [
  expect.stringMatching(`^${cause}: TCP web.example:7007( \\(2\\)|, TCP \\S+:7007)$`),
]

const tell = async (message: object) => {
  const answer = once(outside, 'message')
  outside.send({ id: 'tell', ...message })
  return (await answer)[0] as { ends: string[]; open: number }
}

/** How `count` connections ended for the server outside, after the first `before`. */
const endsSince = async (before: number, count: number) => {
  await expect
    .poll(async () => (await tell({})).ends.length, { timeout: 30_000 })
    .toBeGreaterThanOrEqual(before + count)
  return (await tell({})).ends.slice(before)
}

describe('an idle connection', () => {
  test.each(['frozen', 'stored'])('%s: continues after ten sleeps', async (tier) => {
    const id = await connected()
    for (let round = 0; round < 10; round += 1) {
      await standby(id, tier)
      expect(await world.inside(id, `[say("round ${round}"), say("six ${round}", echo6)]`)).toEqual([
        `round ${round}`,
        `six ${round}`,
      ])
    }
  })
})

/** Echoes random bytes in both directions until it is told to stop, and compares what comes back. */
const FLOW = `
sent, back, counts, stop = hashlib.sha256(), hashlib.sha256(), [0, 0], threading.Event()
flow = socket.create_connection(("web.example", 7007))
def send():
    while not stop.is_set():
        piece = os.urandom(32768); sent.update(piece); flow.sendall(piece); counts[0] += len(piece)
    flow.shutdown(socket.SHUT_WR)
def receive():
    while piece := flow.recv(65536): back.update(piece); counts[1] += len(piece)
threads = [threading.Thread(target=each, daemon=True) for each in (send, receive)]
for each in threads: each.start()
`

test('no byte is lost or doubled under load in both directions, while the sandbox sleeps twenty times', async () => {
  const id = await connected()
  await world.server.run(id, FLOW)
  const counts: number[] = []
  for (let round = 0; round < 20; round += 1) {
    await standby(id, round % 5 === 0 ? 'stored' : 'frozen')
    counts.push((await world.inside<number[]>(id, 'counts'))[1] ?? 0)
  }
  const whole =
    '(stop.set(), [each.join(60) for each in threads], sent.hexdigest() == back.hexdigest(), counts[0] == counts[1])[2:]'
  expect(await world.inside(id, whole)).toEqual([true, true])
  // It flowed all the time, not only between the first sleeps.
  expect(counts.at(-1)).toBeGreaterThan(counts[10] ?? 0)
})

describe('while the sandbox sleeps', () => {
  const QUIET = `quiet = socket.create_connection(("11.22.33.44", 7008)); quiet.settimeout(20)
def whole(to):
    got = b""
    while more := to.recv(65536): got += more
    return len(got)`

  test('what arrives is there at the wake, and so is its end', async () => {
    const id = await connected()
    await world.server.run(id, QUIET)
    await expect.poll(async () => (await tell({})).open, { timeout: 30_000 }).toBe(1)
    await standby(id, 'stored')
    await tell({ say: 'x', count: 300_000, end: true })
    expect(await world.inside(id, '(whole(quiet), quiet.sendall(b"half open"), quiet.close())[0]')).toBe(
      300_000,
    )
    await expect.poll(async () => (await tell({})).open, { timeout: 30_000 }).toBe(0)
  })

  test('a connection that one side has ended stays half open', async () => {
    const id = await connected()
    await world.server.run(id, `${QUIET}\nquiet.shutdown(socket.SHUT_WR)`)
    await expect.poll(async () => (await tell({})).ends.at(-1)).toBe('end')
    for (const tier of ['stored', 'frozen', 'stored']) {
      await standby(id, tier)
      await tell({ say: tier })
      expect(await world.inside(id, 'listen(quiet)')).toBe(tier)
    }
    await tell({ end: true })
    expect(await world.inside(id, 'listen(quiet)')).toBe('ended')
    // The other half: the server has ended first.
    await world.server.run(id, QUIET)
    await expect.poll(async () => (await tell({})).open, { timeout: 30_000 }).toBe(1)
    await tell({ say: 'last', end: true })
    await standby(id, 'stored')
    expect(await world.inside(id, '[listen(quiet), listen(quiet), quiet.send(b"x")]')).toEqual([
      'last',
      'ended',
      1,
    ])
    await standby(id, 'stored')
    await world.server.run(id, 'quiet.close()')
    await expect.poll(async () => (await tell({})).open, { timeout: 30_000 }).toBe(0)
  })

  test('a snapshot that is refused disturbs no connection', async () => {
    const id = await connected()
    await world.server.run(id, `${FLOW}\nsemaphore = os.eventfd(1, os.EFD_SEMAPHORE)`)
    for (let round = 0; round < 3; round += 1)
      expect(
        (await world.server.call(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })).status,
      ).toBe(409)
    const whole = '(stop.set(), [each.join(60) for each in threads], sent.hexdigest() == back.hexdigest())[2]'
    expect(await world.inside(id, whole)).toBe(true)
  })
})

describe('the policy', () => {
  test.each(['frozen', 'stored'])('%s: after keepAsleepMs the connection has ended', async (tier) => {
    const id = await connected()
    const change = { method: 'PATCH', json: { connections: { keepAsleepMs: 200 } } }
    const { connections } = await world.server.ok(`/v1/sandboxes/${id}`, change)
    expect(connections).toEqual({ keepAsleepMs: 200, wakeOnData: false })
    const { ends } = await tell({})
    await standby(id, tier)
    // Both of its connections end outside first.
    expect(await endsSince(ends.length, 2)).toEqual(['ECONNRESET', 'ECONNRESET'])
    expect(await losses(id)).toEqual(both('expired'))
    const { summary } = await world.server.ok(`/v1/sandboxes/${id}/why`)
    expect(summary).toContain('Connections ended after their time asleep: TCP web.example:7007')
    expect(await world.inside(id, RESETS)).toEqual(BOTH_RESET)
  })

  test('0 ends connections at every sleep, and the ledger names them', async () => {
    const id = await connected()
    await world.server.ok(`/v1/sandboxes/${id}`, {
      method: 'PATCH',
      json: { connections: { keepAsleepMs: 0 } },
    })
    await standby(id, 'frozen')
    expect(await world.inside(id, RESETS)).toEqual(BOTH_RESET)
    await expect.poll(() => losses(id), { timeout: 20_000 }).toEqual(both('sleep'))
  })

  test('data wakes the sandbox if its policy says so', async () => {
    const id = await world.create(undefined, { connections: { wakeOnData: true } })
    await world.server.run(id, `${CONNECT}\nquiet = socket.create_connection(("11.22.33.44", 7008))`)
    await expect.poll(async () => (await tell({})).open, { timeout: 30_000 }).toBe(1)
    await standby(id, 'stored')
    const { summary } = await world.server.ok(`/v1/sandboxes/${id}/why`)
    expect(summary).toContain('3 connections are kept for 60 min; data that arrives wakes it.')
    await tell({ say: 'wake' })
    await expect
      .poll(async () => (await world.server.ok(`/v1/sandboxes/${id}`)).state, { timeout: 60_000 })
      .toBe('running')
    expect(await world.inside(id, 'listen(quiet)')).toBe('wake')
    const { items } = await world.server.ok(`/v1/sandboxes/${id}/ledger`)
    expect(items).toContainEqual(expect.objectContaining({ event: 'woke', cause: 'data' }))
  })
})

test('a volume that is attached or detached disturbs no connection, awake or asleep', async () => {
  const id = await connected()
  await world.server.ok('/v1/volumes', { json: { name: 'data' } })
  const change = (volumes: object[]) =>
    world.server.ok(`/v1/sandboxes/${id}`, { method: 'PATCH', json: { volumes } })
  const attached = [{ volume: 'data', path: '/data' }]
  for (const tier of [undefined, 'frozen', 'stored'])
    for (const volumes of [attached, []]) {
      if (tier !== undefined) await standby(id, tier)
      await change(volumes)
      const isThere = 'os.path.ismount("/data")'
      expect(await world.inside(id, `[say("still"), say("six", echo6), ${isThere}]`)).toEqual([
        'still',
        'six',
        volumes === attached,
      ])
    }
  expect(await losses(id)).toEqual([])
})

describe('copies', () => {
  test('the parent of a fork keeps its connection, and its children see that it has ended', async () => {
    const id = await connected()
    const { children } = await world.server.ok(`/v1/sandboxes/${id}/fork`, { json: { count: 2 } })
    expect(await world.inside(id, 'say("still")')).toBe('still')
    for (const child of children) {
      expect(await world.inside(child.id, RESETS)).toEqual(BOTH_RESET)
      expect(await losses(child.id)).toEqual(both('fork'))
    }
    expect(await losses(id)).toEqual([])
  })

  test('a snapshot leaves the connection open, and a rollback to it ends it', async () => {
    const id = await connected()
    const { id: snapshotId } = await world.server.ok(`/v1/sandboxes/${id}/snapshots`, { json: {} })
    expect(await world.inside(id, 'say("still")')).toBe('still')
    const before = (await tell({})).ends.length
    await world.server.ok(`/v1/sandboxes/${id}/rollback`, { json: { snapshotId } })
    expect(await endsSince(before, 2)).toEqual(['ECONNRESET', 'ECONNRESET'])
    expect(await world.inside(id, RESETS)).toEqual(BOTH_RESET)
    await expect.poll(() => losses(id), { timeout: 20_000 }).toEqual(both('rollback'))
    await world.server.run(id, CONNECT)
    expect(await world.inside(id, 'say("new")')).toBe('new')
  })
})

test('the server is killed: connections of a sandbox that slept have ended', async () => {
  const [id, frozen] = [await connected(), await connected()]
  await standby(id, 'stored')
  await standby(frozen, 'frozen')
  const before = (await tell({})).ends.length
  await world.server.kill()
  await world.server.begin()
  for (const each of [id, frozen]) expect(await world.inside(each, RESETS)).toEqual(BOTH_RESET)
  // Those of sandboxes that were awake end in order, as the kernel ends them.
  const resets = async () => (await endsSince(before, 4)).filter((end) => end === 'ECONNRESET')
  await expect.poll(resets).toHaveLength(4)
})
