import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CANARY_PORT, World } from './world/world.ts'

let world: World
let id: string
beforeAll(async () => {
  world = await World.make()
  id = await world.create()
})
afterAll(() => world?.[Symbol.asyncDispose]())

/** Whatever the sandbox hears, nothing out there may have been reached. */
async function reachesNothing(expression: string, sandbox = id): Promise<void> {
  await world.forget()
  const visits = await world.canaryVisits()
  const said = String(await world.inside(sandbox, expression))
  expect(said).not.toContain('reached')
  expect(await world.canaryVisits()).toBe(visits)
  expect((await world.seen()).connections).toEqual([])
}

test('the places that these tests must not reach answer to the host itself', async () => {
  // Else nothing below could fail: from the namespace of the server each of them can be reached.
  const open = await world.create({ mode: 'public' })
  expect(await world.inside(open, 'get("11.22.33.44")')).toContain('reached')
  expect(await world.inside(open, 'hear("11.22.33.44", 80)')).toMatch(/^HTTP/)
  expect(await world.fromHost('10.9.8.7', 80)).toContain('reached')
  expect(await world.fromHost('169.254.169.254', 80)).toContain('reached')
  expect(await world.fromHost('168.63.129.16', 80)).toContain('reached')
  expect(await world.fromHost('fd00:77::7', 80)).toContain('reached')
  expect(await world.fromHost('127.0.0.1', CANARY_PORT)).toContain('reached')
  expect(await world.fromHost('11.0.0.2', CANARY_PORT)).toContain('reached')
})

describe('private addresses', () => {
  test.each([
    '10.9.8.7',
    '172.16.3.3',
    '192.168.7.7',
    '100.64.0.9',
    '169.254.169.254',
    '168.63.129.16',
    '::ffff:168.63.129.16',
    '198.18.5.5',
    '10.0.0.1',
    'fd00:77::7',
    'fec0::7',
    'fd00:10::1',
    'fe80::1',
    '::ffff:10.9.8.7',
    '::ffff:169.254.169.254',
    '::10.9.8.7',
    '64:ff9b::10.9.8.7',
    '2002:0a09:0807::1',
    '0.0.0.0',
    '255.255.255.255',
    '224.0.0.1',
    'ff02::1',
  ])('%s', async (address) => {
    await reachesNothing(`get("${address}", 80, timeout=5)`)
  })

  test('are not told for a name either, nor reached by it', async () => {
    expect(await world.inside(id, 'lookup("inner.example")')).toBe('gaierror')
    expect(await world.inside(id, 'lookup("inner.example", socket.AF_INET6)')).toBe('gaierror')
    await reachesNothing('get("inner.example")')
  })

  test('a redirect leads to none', async () => {
    for (const to of ['http://10.9.8.7/', 'http://inner.example/', 'http://169.254.169.254/latest/']) {
      const url = `http://web.example/redirect?${encodeURIComponent(to)}`
      const follow = `(lambda: urllib.request.urlopen("${url}", timeout=5).read().decode())`
      await expect(world.inside(id, `${follow}()`)).rejects.toThrow(/URLError|Connection/)
    }
    expect((await world.seen()).connections.filter((where) => !where.startsWith('11.22.33.44'))).toEqual([])
  })
})

describe('the host', () => {
  /** What listens on the host: a service of its own, the server's HTTP and its SSH. */
  const ports = () => [CANARY_PORT, world.serverPort, world.sshPort]

  /** Not a byte, from any sender. */
  async function hearsNothing(address: string, sandbox = id): Promise<void> {
    await world.forget()
    const visits = await world.canaryVisits()
    const heard = `[hear("${address}", port) for port in (${ports()})]`
    expect(await world.inside(sandbox, heard)).toEqual(ports().map(() => ''))
    expect(await world.canaryVisits()).toBe(visits)
    expect((await world.seen()).connections).toEqual([])
  }

  test.each(['127.0.0.1', '11.0.0.2'])('answers to itself on all of these ports: %s', async (address) => {
    const heard = await Promise.all(ports().map((port) => world.heardOnHost(address, port)))
    expect(heard).toEqual(['HTTP', 'HTTP', 'SSH-'])
  })

  test.each(['127.0.0.1', '127.1.2.3', 'localhost', '::1', '0.0.0.0', '::', '::ffff:127.0.0.1'])(
    'its loopback is not that of a sandbox: %s',
    async (address) => hearsNothing(address),
  )

  test.each(['11.0.0.2', '2a00:d0::2', '10.0.0.2', 'fd00:10::2', '::ffff:11.0.0.2'])(
    'its address %s, where the server of sandboxes listens',
    async (address) => {
      await hearsNothing(address)
      const allowed = await world.create({
        mode: 'allow',
        allow: ['host.example', '11.0.0.0/24', '2a00:d0::/64'],
      })
      await world.say({ 'host.example': { A: [['11.0.0.2']], AAAA: [['2a00:d0::2']] } })
      await hearsNothing(address, allowed)
      await hearsNothing('host.example', allowed)
    },
  )

  test.each(['2130706433', '0x7f000001', '0177.0.0.1', '127.1', '184549378', '0x0b000002', '013.0.0.2'])(
    'spelled as %s',
    async (spelling) => hearsNothing(spelling),
  )
})

describe('a neighbour', () => {
  test('is not reached at any address, though both have the same', async () => {
    const neighbour = await world.create()
    await world.server.run(neighbour, SERVE)
    for (const own of ['198.18.0.2', 'fd64:6f72:6d6f::2'])
      expect(await world.inside(neighbour, `get("${own}", 7777, timeout=3)`)).toBe('reached')
    for (const address of ['127.0.0.1', '198.18.0.2', '198.18.0.1', '198.18.0.3', 'fd64:6f72:6d6f::2', '::1'])
      await reachesNothing(`get("${address}", 7777, timeout=3)`)
  })
})

describe('below sockets', () => {
  test.each([
    ['raw sockets', 'socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)'],
    ['raw ICMP', 'socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'],
    ['raw IPv6', 'socket.socket(socket.AF_INET6, socket.SOCK_RAW, 255)'],
    ['packet sockets', 'socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300)'],
    ['packet sockets that only listen', 'socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0x0300)'],
    ['TUN devices', 'open("/dev/net/tun", "rb+")'],
  ])('%s are not to be had', async (_what, how) => {
    await expect(world.server.run(id, how)).rejects.toThrow(/Error/)
  })

  test('there is no device but loopback, and no route is to be changed', async () => {
    const shell = (line: string) =>
      world.inside(
        id,
        `__import__("subprocess").run(${JSON.stringify(line)}, shell=True, capture_output=True, text=True).stderr`,
      )
    for (const line of [
      'ip link add v0 type veth',
      'ip addr add 10.0.0.9/8 dev lo',
      'ip route del local default dev lo table local',
      'ip route add default via 127.0.0.1',
      'ip rule add from all lookup 7',
      'ip netns add x',
    ])
      expect(await shell(line), line).toMatch(/not permitted|denied|not supported/i)
  })

  test('a source address of one’s own choice changes nothing', async () => {
    for (const source of ['11.0.0.2', '10.9.8.7', '11.22.33.45', '127.0.0.1', '198.18.0.1'])
      await reachesNothing(`get("10.9.8.7", 80, timeout=5, source=("${source}", 0))`)
    // It may be accepted, since every address is local inside; the internet never sees it.
    await world.inside(id, 'get("11.22.33.44", 80, timeout=5, source=("10.9.8.7", 0))')
    expect((await world.seen()).connections.every((where) => where.startsWith('11.22.33.44'))).toBe(true)
  })
})

describe('listening where the way out is', () => {
  test('does not catch what goes out, and does not close it, also after sleep', async () => {
    const trickster = await world.create()
    const bind =
      'held = []\nfor kind, where in [(socket.SOCK_STREAM, ("11.22.33.44", 80)), (socket.SOCK_STREAM, ("0.0.0.0", 80)), (socket.SOCK_STREAM, ("198.18.0.1", 53))]:\n  s = socket.socket(socket.AF_INET, kind)\n  s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n  s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n  try:\n    s.bind(where)\n    if kind == socket.SOCK_STREAM: s.listen()\n    held.append(s)\n  except OSError: pass'
    await world.server.run(trickster, bind)
    const works = async () => {
      expect(await world.inside(trickster, 'get("11.22.33.44", timeout=5)')).toBe('reached 11.22.33.44 80')
      expect(await world.inside(trickster, 'lookup("web.example")')).toEqual(['11.22.33.44'])
    }
    await works()
    for (const tier of ['frozen', 'stored']) {
      await world.server.ok(`/v1/sandboxes/${trickster}/standby`, { json: { tier } })
      await works()
    }
    expect((await world.server.ok(`/v1/sandboxes/${trickster}`)).network.unavailable).toBeUndefined()
  })
})

test('a name server inside a sandbox closes no other gate, and is reported', async () => {
  const server = await world.create()
  await world.server.run(
    server,
    'own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); own.bind(("0.0.0.0", 53))',
  )
  expect(await world.inside(server, 'get("11.22.33.44", timeout=5)')).toBe('reached 11.22.33.44 80')
  await world.server.ok(`/v1/sandboxes/${server}/standby`, { json: { tier: 'stored' } })
  const said = await world.inside(server, 'get("11.22.33.44", timeout=5)')
  const { network } = await world.server.ok(`/v1/sandboxes/${server}`)
  if (network.unavailable === undefined) expect(said).toBe('reached 11.22.33.44 80')
  else expect(network.unavailable).toContain('53')
  expect(await world.inside(id, 'lookup("web.example")')).toEqual(['11.22.33.44'])
  await world.server.run(server, 'own.close()')
  await world.server.ok(`/v1/sandboxes/${server}/standby`, { json: { tier: 'stored' } })
  expect(await world.inside(server, 'get("web.example", timeout=5)')).toMatch(/^reached/)
})

const SERVE = `
def answer(s):
    while True:
        with s.accept()[0] as c: c.recv(1000); c.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\nreached")
for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
    s = socket.socket(family)
    if family == socket.AF_INET6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.bind((address, 7777)); s.listen()
    threading.Thread(target=answer, args=(s,), daemon=True).start()
`
