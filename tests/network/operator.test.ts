import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CANARY_PORT, World } from './world/world.ts'

let world: World
beforeAll(async () => {
  world = await World.make({
    network: {
      defaultMode: 'none',
      // By its address: names of mirrors are looked up as the host itself does it, which knows nothing of this world.
      registries: ['10.9.8.7:8080'],
      ownAddresses: ['11.22.33.45'],
      reachable: ['192.168.7.0/24', '11.0.0.0/24', '127.0.0.0/8'],
    },
  })
  await world.say({
    'database.example': { A: [['192.168.7.7']] },
    'evil.example': { A: [['10.9.8.7']] },
  })
})
afterAll(() => world?.[Symbol.asyncDispose]())

describe('what the operator decides', () => {
  test('a sandbox that nothing was said about has what is configured', async () => {
    const id = await world.create()
    expect((await world.server.ok(`/v1/sandboxes/${id}`)).network).toEqual({ mode: 'none', allow: [] })
    expect(await world.inside(id, 'get("11.22.33.44")')).not.toContain('reached')
  })

  test('a mirror with a private address is reached on its port, and nothing beside it', async () => {
    const id = await world.create({ mode: 'public' })
    expect(await world.inside(id, 'get("10.9.8.7", 8080)')).toBe('reached 10.9.8.7 8080')
    await world.forget()
    // It has many names behind one address, as reverse proxies do.
    for (const attempt of ['get("10.9.8.7", 8080, name="wiki.corp.example")', 'hear("10.9.8.7", 8080)'])
      expect(await world.inside(id, attempt), attempt).not.toMatch(/reached|HTTP/)
    for (const attempt of ['get("10.9.8.7", 22)', 'get("192.168.7.7", 8080)', 'get("evil.example", 22)'])
      expect(await world.inside(id, attempt), attempt).not.toContain('reached')
    expect((await world.seen()).connections).toEqual([])
    const none = await world.create({ mode: 'none' })
    expect(await world.inside(none, 'get("10.9.8.7", 8080)')).not.toContain('reached')
  })

  test('a private network is reached by rules that name it, not by others, and not in public', async () => {
    const id = await world.create({
      mode: 'allow',
      allow: ['192.168.7.7:5432', 'database.example:80', 'evil.example'],
    })
    expect(await world.inside(id, 'get("192.168.7.7", 5432)')).toBe('reached 192.168.7.7 5432')
    expect(await world.inside(id, 'get("192.168.7.7", 8080)')).not.toContain('reached')
    expect(await world.inside(id, 'get("evil.example")')).not.toContain('reached')
    const open = await world.create({ mode: 'public' })
    expect(await world.inside(open, 'get("192.168.7.7", 5432)')).not.toContain('reached')
  })

  test('no sandbox reaches the host itself, whatever the operator opened', async () => {
    const json = { network: { mode: 'allow', allow: ['127.0.0.1'] } }
    expect((await world.server.call('/v1/sandboxes', { json })).status).toBe(400)
    const id = await world.create({ mode: 'allow', allow: ['11.0.0.0/24'] })
    const visits = await world.canaryVisits()
    for (const port of [CANARY_PORT, world.serverPort, world.sshPort])
      expect(await world.inside(id, `hear("11.0.0.2", ${port})`)).toBe('')
    expect(await world.inside(id, 'get("11.0.0.1")')).toContain('reached')
    expect(await world.canaryVisits()).toBe(visits)
  })

  test('an address that is translated to the host is reached in no mode', async () => {
    await world.forget()
    for (const network of [{ mode: 'public' }, { mode: 'allow', allow: ['11.22.33.45', 'other.example'] }]) {
      const id = await world.create(network)
      for (const host of ['11.22.33.45', 'other.example'])
        expect(await world.inside(id, `get("${host}")`)).not.toContain('reached')
    }
    expect((await world.seen()).connections).toEqual([])
  })
})
