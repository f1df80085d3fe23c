import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { World } from './world/world.ts'

let world: World
beforeAll(async () => {
  world = await World.make()
})
afterAll(() => world?.[Symbol.asyncDispose]())

/** A connection to the outside that is held, and one inside that must outlive everything. */
const HOLD = `
server = socket.create_server(("127.0.0.1", 0))
inner = socket.create_connection(server.getsockname()); other = server.accept()[0]
outer = socket.create_connection(("web.example", 80)); outer.settimeout(10)
outer.sendall(b"GET /hold HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n"); held = outer.recv(100)
def speak():
    inner.sendall(b"still"); return other.recv(5).decode()
def listen():
    try: return outer.recv(100).decode() or "ended"
    except OSError as error: return type(error).__name__
`

const standby = (id: string, tier: string) =>
  world.server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier } })

describe('sleep', () => {
  test.each(['frozen', 'stored'])(
    '%s: connections inside and to the outside continue, and new ones work',
    async (tier) => {
      const id = await world.create()
      await world.server.run(id, HOLD)
      await standby(id, tier)
      expect(await world.inside(id, 'speak()')).toBe('still')
      expect(await world.inside(id, '(outer.settimeout(1), listen())[1]')).toBe('TimeoutError')
      expect(await world.inside(id, 'get("web.example")')).toMatch(/^reached/)
      expect((await world.server.ok(`/v1/sandboxes/${id}`)).network).toEqual({ mode: 'public', allow: [] })
    },
  )

  test('an open connection does not keep the sandbox awake', async () => {
    const id = await world.create()
    await world.server.run(id, HOLD)
    await world.server.ok(`/v1/sandboxes/${id}`, { method: 'PATCH', json: { idleTimeoutMs: 500 } })
    await expect
      .poll(async () => (await world.server.ok(`/v1/sandboxes/${id}`)).state, { timeout: 20_000 })
      .toBe('standby')
  })

  test('a policy that changes while it sleeps holds when it wakes', async () => {
    const id = await world.create()
    for (const tier of ['frozen', 'stored']) {
      await standby(id, tier)
      await world.patch(id, { mode: 'none' })
      expect(await world.inside(id, 'get("11.22.33.44")')).not.toContain('reached')
      await standby(id, tier)
      await world.patch(id, { mode: 'allow', allow: ['11.22.33.44'] })
      expect(await world.inside(id, 'get("11.22.33.44")')).toContain('reached')
      expect(await world.inside(id, 'get("11.22.33.45")')).not.toContain('reached')
    }
  })
})

describe('copies', () => {
  test('children and parent of a fork have the policy and a network each', async () => {
    const id = await world.create({ mode: 'allow', allow: ['web.example'] })
    const { children } = await world.server.ok(`/v1/sandboxes/${id}/fork`, { json: { count: 3 } })
    for (const one of [id, ...children.map((child: { id: string }) => child.id)]) {
      expect(await world.inside(one, 'get("web.example")')).toMatch(/^reached/)
      expect(await world.inside(one, 'get("11.22.33.45")')).not.toContain('reached')
      expect((await world.server.ok(`/v1/sandboxes/${one}`)).network).toEqual({
        mode: 'allow',
        allow: ['web.example'],
      })
    }
    await world.patch(children[0].id, { mode: 'none' })
    expect(await world.inside(children[0].id, 'get("web.example")')).not.toContain('reached')
    expect(await world.inside(children[1].id, 'get("web.example")')).toMatch(/^reached/)
  })

  test('a snapshot, a rollback and a template leave the network as it is', async () => {
    const id = await world.create({ mode: 'allow', allow: ['web.example'] })
    const snapshot = await world.server.ok(`/v1/sandboxes/${id}/snapshots`, { json: { name: 'one' } })
    expect(await world.inside(id, 'get("web.example")')).toMatch(/^reached/)
    await world.patch(id, { mode: 'allow', allow: ['11.22.33.45'] })
    await world.server.ok(`/v1/sandboxes/${id}/rollback`, { json: { snapshotId: snapshot.id } })
    // The policy is not of the state that was saved: going back must not open what was closed since.
    expect(await world.inside(id, 'get("web.example")')).not.toContain('reached')
    expect(await world.inside(id, 'get("11.22.33.45")')).toMatch(/^reached/)
    await world.server.ok('/v1/templates', { json: { name: 'net', snapshotId: snapshot.id } })
    const child = await world.create(undefined, { template: 'net' })
    expect(await world.inside(child, 'get("other.example")')).toMatch(/^reached/)
  })
})

describe('a change', () => {
  test('ends what is no longer allowed, before it is answered, and leaves the rest alone', async () => {
    const id = await world.create({ mode: 'allow', allow: ['web.example'] })
    await world.server.run(id, HOLD)
    await world.patch(id, { mode: 'allow', allow: ['web.example', 'other.example'] })
    const open =
      'outer.settimeout(1)\ntry: print(outer.recv(1))\nexcept TimeoutError: print("open")\nouter.settimeout(10)'
    expect(await world.server.run(id, open)).toBe('open\n')
    await world.patch(id, { mode: 'public' })
    expect(await world.server.run(id, open)).toBe('open\n')
    await world.patch(id, { mode: 'allow', allow: ['other.example'] })
    expect(await world.inside(id, 'listen()')).toMatch(/^(ended|ConnectionResetError)$/)
    expect(await world.inside(id, 'speak()')).toBe('still')
    const { items } = await world.server.ok(`/v1/sandboxes/${id}/ledger`)
    expect(items).toContainEqual(
      expect.objectContaining({ event: 'changed', detail: 'network: allow other.example' }),
    )
  })

  test('of two that come while connections are made, the last one holds for all of them', async () => {
    const id = await world.create()
    const hammer = `
going, late = True, []
def hammer():
    while going:
        said = get("11.22.33.44", timeout=5)
        if closed and "reached" in said: late.append(said)
closed = False
threads = [threading.Thread(target=hammer) for _ in range(8)]; [t.start() for t in threads]
`
    await world.server.run(id, hammer)
    for (let round = 0; round < 5; round += 1) {
      await world.patch(id, { mode: 'public' })
      await world.patch(id, { mode: 'none' })
      // What had arrived before the change may still be read after it, here and out there.
      await world.server.run(id, 'time.sleep(0.3)')
      await world.forget()
      await world.server.run(id, 'closed = True; time.sleep(0.3); closed = False')
      expect((await world.seen()).connections).toEqual([])
    }
    expect(await world.server.run(id, 'going = False; [t.join() for t in threads]; print(late)')).toBe('[]\n')
  })
})

describe('the server', () => {
  test('killed and started again: code continues untouched, and has its network again', async () => {
    const id = await world.create({ mode: 'allow', allow: ['web.example', '11.22.33.45'] })
    const asleep = await world.create({ mode: 'none' })
    const count = `
beats = 0
def beat():
    global beats
    while True: beats += 1; time.sleep(0.05)
threading.Thread(target=beat, daemon=True).start()
`
    await world.server.run(id, HOLD + count)
    await standby(asleep, 'stored')
    await world.server.kill()
    await world.server.begin()
    expect(await world.inside(id, 'listen()')).toMatch(/^(ended|ConnectionResetError)$/)
    expect(await world.inside(id, 'speak()')).toBe('still')
    expect(await world.inside<number>(id, 'beats')).toBeGreaterThan(5)
    expect(await world.inside(id, 'get("web.example")')).toMatch(/^reached/)
    expect(await world.inside(id, 'get("11.22.33.45")')).toMatch(/^reached/)
    expect(await world.inside(id, 'get("other.example")')).not.toContain('reached')
    expect(await world.inside(asleep, 'get("web.example")')).not.toContain('reached')
  })

  test('nothing gets out while there is none', async () => {
    const id = await world.create()
    await world.server.run(
      id,
      'heard = []\ndef try_on():\n  while True: heard.append((time.time(), get("11.22.33.44", timeout=1))); time.sleep(0.05)\nthreading.Thread(target=try_on, daemon=True).start()',
    )
    await world.server.kill()
    await world.forget()
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    expect((await world.seen()).connections).toEqual([])
    await world.server.begin()
    await expect
      .poll(async () => world.inside<string>(id, 'heard[-1][1]'), { timeout: 10_000 })
      .toMatch(/^reached/)
  })
})
