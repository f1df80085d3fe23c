import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { World } from './world/world.ts'

let world: World
beforeAll(async () => {
  world = await World.make({ network: { maxConnections: 64, maxConnectionsTotal: 256 } })
})
afterAll(() => world?.[Symbol.asyncDispose]())

const descriptors = () => readdirSync(`/proc/${world.server.pid}/fd`).length

/** As many creates in a row make the server hold as many burrows ready as it ever does. Each has descriptors. */
const BURST = 16
/** One descriptor that each sandbox left behind would be seen. */
const ROUNDS = 8
const QUIET_MS = 1_000

/** The descriptors once their number no longer changes. */
async function settledDescriptors(): Promise<number> {
  let last = -1
  for (let since = Date.now(); Date.now() - since < QUIET_MS; await sleep(50)) {
    if (descriptors() !== last) since = Date.now()
    last = descriptors()
  }
  return last
}

test('a sandbox that opens all connections that it can takes none from its neighbours, and gets well again', async () => {
  const greedy = await world.create({ mode: 'public' }, { limits: { pids: 2048 } })
  const neighbour = await world.create()
  const before = descriptors()
  const open = `
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
def grab(n):
    for _ in range(n):
        try:
            s = socket.create_connection(("11.22.33.44", 80), 5); s.sendall(b"GET /hold HTTP/1.1\\r\\n\\r\\n"); held.append(s)
        except OSError: pass
grabbers = [threading.Thread(target=grab, args=(200,)) for _ in range(20)]
[t.start() for t in grabbers]; [t.join(20) for t in grabbers]
print(len(held))
`
  await world.server.run(greedy, open)
  expect(await world.inside(neighbour, 'get("web.example", timeout=10)')).toMatch(/^reached/)
  expect(
    await world.inside<number[]>(
      neighbour,
      '[len(get("web.example", 80, "/bytes?1000")) for _ in range(20)]',
    ),
  ).toEqual(Array(20).fill(1000))
  expect(descriptors() - before).toBeLessThan(64 * 2 + 50)
  await world.server.run(greedy, '[s.close() for s in held]; held = []')
  await expect
    .poll(() => world.inside(greedy, 'get("web.example", timeout=5)'), { timeout: 20_000 })
    .toMatch(/^reached/)
  await expect.poll(descriptors, { timeout: 20_000 }).toBeLessThan(before + 30)
})

test('eight sandboxes that take every connection they get leave some to those of another API key', async () => {
  const greedy = await Promise.all(Array.from({ length: 8 }, () => world.create()))
  const grab = `
held = []
for _ in range(64):
    try:
        s = socket.create_connection(("11.22.33.44", 80), 5); s.sendall(b"GET /hold HTTP/1.1\\r\\n\\r\\n"); held.append(s)
    except OSError: pass
`
  await Promise.all(greedy.map((id) => world.server.run(id, grab)))
  const { key } = await world.server.ok('/v1/keys', { json: { name: 'other', scopes: ['run'] } })
  const { id } = await world.server.ok('/v1/sandboxes', { json: {}, key })
  const code = `import socket
def get():
    s = socket.create_connection(("11.22.33.44", 80), 5); s.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"); return s
print(sum(b"reached" in s.makefile("rb").read() for s in [get() for _ in range(8)]))`
  expect((await world.server.ok(`/v1/sandboxes/${id}/run`, { json: { code }, key })).stdout).toBe('8\n')
  // Refusals are gathered for two seconds.
  const reports = () => Promise.all(greedy.map((one) => world.server.ok(`/v1/sandboxes/${one}/network`)))
  await expect
    .poll(async () => JSON.stringify(await reports()), { timeout: 20_000 })
    .toContain('closed for another API key')
  for (const one of [...greedy, id]) await world.server.call(`/v1/sandboxes/${one}`, { method: 'DELETE' })
})

test('connections that send nothing, or never read, are bounded too', async () => {
  const silent = await world.create()
  const neighbour = await world.create()
  const status = () => readFileSync(`/proc/${world.server.pid}/status`, 'utf8')
  const memory = () => Number(/VmRSS:\s+(\d+)/.exec(status())?.[1]) / 1024
  const before = memory()
  await world.server.run(
    silent,
    'held = []\nfor i in range(60):\n  s = socket.create_connection(("11.22.33.44", 80), 5)\n  s.sendall(b"GET /bytes?50000000 HTTP/1.1\\r\\n\\r\\n") if i % 2 else None\n  held.append(s)\ntime.sleep(2)',
  )
  expect(await world.inside(neighbour, 'get("web.example", timeout=10)')).toMatch(/^reached/)
  // Thirty answers of 50 MB without a reader.
  expect(memory() - before).toBeLessThan(300)
})

test('a sandbox that goes leaves nothing behind', async () => {
  const comeAndGo = async () => {
    const id = await world.create()
    await world.inside(id, 'get("web.example")')
    await world.server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'frozen' } })
    await world.inside(id, 'get("web.example")')
    await world.server.call(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  }
  // They start what the server keeps: its threads and the reserve.
  await comeAndGo()
  const burst = await Promise.all(Array.from({ length: BURST }, () => world.create()))
  for (const id of burst) await world.server.call(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  const before = await settledDescriptors()
  for (let round = 0; round < ROUNDS; round += 1) await comeAndGo()
  await expect.poll(descriptors, { timeout: 20_000 }).toBeLessThan(before + ROUNDS)
})
