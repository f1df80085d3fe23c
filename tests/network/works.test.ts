import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { World } from './world/world.ts'

let world: World
beforeAll(async () => {
  world = await World.make()
})
afterAll(() => world?.[Symbol.asyncDispose]())

describe('a sandbox that nothing was said about', () => {
  let id: string
  beforeAll(async () => {
    id = await world.create()
  })

  test('reaches the internet by name and by address, with either family', async () => {
    expect(await world.inside(id, 'get("web.example")')).toMatch(/^reached .* 80$/)
    expect(await world.inside(id, 'get("11.22.33.44")')).toBe('reached 11.22.33.44 80')
    expect(await world.inside(id, 'get("2a00:22:33::44", 8080)')).toBe('reached 2a00:22:33::44 8080')
    expect(await world.inside(id, 'get("::ffff:11.22.33.45")')).toBe('reached 11.22.33.45 80')
    expect(await world.inside(id, 'lookup("web.example")')).toEqual(['11.22.33.44'])
    expect(await world.inside(id, 'lookup("web.example", socket.AF_INET6)')).toEqual(['2a00:22:33::44'])
    expect(await world.inside(id, 'lookup("nowhere.example")')).toBe('gaierror')
  })

  test('does so with the programs that people use', async () => {
    const url = 'http://web.example:8080/'
    expect(await world.inside(id, `urllib.request.urlopen("${url}").read().decode()`)).toMatch(/8080$/)
    const curl = `__import__("subprocess").run(["curl", "-s", "${url}"], capture_output=True, text=True).stdout`
    expect(await world.inside(id, curl)).toMatch(/8080$/)
  })

  test('gets every byte of what is large, and may be many connections at once', async () => {
    const bytes = 20 * 1024 * 1024
    expect(await world.inside<number>(id, `len(get("web.example", 80, "/bytes?${bytes}", 30))`)).toBe(bytes)
    const many =
      'list(__import__("concurrent.futures").futures.ThreadPoolExecutor(100).map(lambda _: len(get("11.22.33.44", 80, "/bytes?10000", 30)), range(200)))'
    expect(await world.inside(id, many)).toEqual(Array(200).fill(10_000))
  })

  test('says so, and counts', async () => {
    const { body } = await world.server.call(`/v1/sandboxes/${id}`)
    expect(body.network).toEqual({ mode: 'public', allow: [] })
    const report = await world.server.ok(`/v1/sandboxes/${id}/network`)
    expect(report).toMatchObject({ mode: 'public', allow: [], denied: [] })
    expect(report.counters.connections).toBeGreaterThan(200)
    expect(report.counters.names).toBeGreaterThan(0)
    expect(report.counters.bytesIn).toBeGreaterThan(20 * 1024 * 1024)
    expect(report.counters.bytesOut).toBeGreaterThan(200 * 20)
    const metrics = await world.server.ok(`/v1/sandboxes/${id}/metrics`)
    expect(metrics.network.connections).toBe(report.counters.connections)
    const text = await (await world.server.fetch('/metrics')).text()
    expect(Number(/^dormouse_network_connections_total (\d+)$/m.exec(text)?.[1])).toBeGreaterThan(200)
  })

  test('finds in its report which names it could not resolve, and why', async () => {
    for (const name of ['absent.example', 'nas.local', 'web.example'])
      await world.inside(id, `lookup("${name}")`)
    const report = await world.server.ok(`/v1/sandboxes/${id}/network`)
    expect(report.failedLookups.slice(0, 2)).toEqual([
      { at: expect.any(String), name: 'nas.local', reason: expect.stringContaining('a local name') },
      { at: expect.any(String), name: 'absent.example', reason: 'the name does not exist' },
    ])
    expect(report.denied).toEqual([])
  })

  test('other UDP than for names is refused at once, so that clients fall back', async () => {
    const quic = `(lambda s: (s.settimeout(60), s.connect(("11.22.33.44", 443)), s.send(b"hello"), s.recv(100)))(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))`
    const began = Date.now()
    await expect(world.server.run(id, quic)).rejects.toThrow(/ConnectionRefused/)
    expect(Date.now() - began).toBeLessThan(30_000)
  })
})

describe('a sandbox with a list', () => {
  let id: string
  const allow = ['web.example:80,8080', '*.web.example', '11.22.33.45:8080', '[2a00:22:33::/48]:443']
  beforeAll(async () => {
    id = await world.create({ mode: 'allow', allow })
  })

  test.each([
    ['a name on one of its ports', 'get("web.example", 8080)', 'reached'],
    ['a name on another port', 'get("web.example", 5432)', 'refused'],
    ['a name below a wildcard', 'get("api.web.example", 443)', 'reached'],
    [
      'an address that a name on the list was just looked up for',
      'lookup("web.example") and get("11.22.33.44", 80, name="web.example")',
      'reached',
    ],
    [
      'a name on the list, to ask there for another',
      'get("11.22.33.44", 80, name="other.example")',
      'refused',
    ],
    ['an address on the list', 'get("11.22.33.45", 8080)', 'reached'],
    ['an address on the list, another port', 'get("11.22.33.45", 80)', 'refused'],
    ['a range on the list', 'get("2a00:22:33::44", 443)', 'reached'],
    ['a range on the list, another port', 'get("2a00:22:33::44", 5432)', 'refused'],
    ['a name that is not on the list', 'get("other.example")', 'refused'],
    ['the name above a wildcard’s end', 'lookup("example")', 'refused'],
    ['a name that only ends like one on the list', 'lookup("notweb.example")', 'refused'],
  ])('%s', async (_what, expression, outcome) => {
    const said = String(await world.inside(id, expression))
    if (outcome === 'reached') expect(said).toMatch(/^reached/)
    else expect(said).toMatch(/^(gaierror|ConnectionResetError|closed)$/)
  })

  test('finds refusals in its ledger and its report, with the name asked for', async () => {
    await world.inside(id, 'get("other.example")')
    await expect
      .poll(async () => (await world.server.ok(`/v1/sandboxes/${id}/ledger`)).items, { timeout: 10_000 })
      .toContainEqual(
        expect.objectContaining({
          event: 'denied',
          denied: expect.objectContaining({ name: 'other.example', protocol: 'dns' }),
        }),
      )
    const report = await world.server.ok(`/v1/sandboxes/${id}/network`)
    expect(report.denied).toContainEqual(expect.objectContaining({ name: 'other.example' }))
    expect(report.denied).toContainEqual(expect.objectContaining({ address: '11.22.33.45', port: 80 }))
    expect(report.counters.denied).toBeGreaterThan(3)
  })
})

describe('a sandbox without a network', () => {
  test('reaches nothing, no question is sent for it, and it works as before', async () => {
    const id = await world.create({ mode: 'none' })
    await world.forget()
    expect(await world.inside(id, 'lookup("web.example")')).toBe('gaierror')
    for (const address of ['11.22.33.44', '2a00:22:33::44', '11.0.0.53'])
      expect(await world.inside(id, `get("${address}")`)).toMatch(/^(ConnectionR\w+Error|closed)$/)
    expect(await world.seen()).toMatchObject({ questions: [], connections: [] })
    const own = `s = socket.create_server(("127.0.0.1", 5000)); c = socket.create_connection(("127.0.0.1", 5000)); s.accept()[0].send(b"me"); print(c.recv(2).decode())`
    expect(await world.server.run(id, own)).toBe('me\n')
  })
})

describe('what is asked for', () => {
  test.each([
    ['a rule that is none', { mode: 'allow', allow: ['https://web.example/'] }],
    ['everything', { mode: 'allow', allow: ['*'] }],
    ['an address in disguise', { mode: 'allow', allow: ['0x7f000001'] }],
    ['a list where there is no use for one', { mode: 'public', allow: ['web.example'] }],
    ['a mode that is none', { mode: 'some' }],
    ['a list without a mode', { allow: ['web.example'] }],
    ['loopback', { mode: 'allow', allow: ['127.0.0.1'] }],
    ['a private range that the operator has not opened', { mode: 'allow', allow: ['10.0.0.0/8'] }],
    ['the metadata service', { mode: 'allow', allow: ['169.254.169.254:80'] }],
  ])('%s is refused when a sandbox is made or changed', async (_what, network) => {
    const created = await world.server.call('/v1/sandboxes', { json: { network } })
    expect(created).toMatchObject({ status: 400, body: { error: { code: 'invalid_argument' } } })
    const id = (await world.server.ok('/v1/sandboxes', { json: {} })).id
    const changed = await world.server.call(`/v1/sandboxes/${id}`, { method: 'PATCH', json: { network } })
    expect(changed).toMatchObject({ status: 400, body: { error: { code: 'invalid_argument' } } })
    expect((await world.server.ok(`/v1/sandboxes/${id}`)).network).toEqual({ mode: 'public', allow: [] })
    await world.server.call(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  })

  test('holds for code that runs once, too', async () => {
    const code =
      'import socket; socket.create_connection(("11.22.33.44", 80)).sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")'
    await world.forget()
    await world.server.ok('/v1/run', { json: { code } })
    await expect.poll(async () => (await world.seen()).connections).toEqual(['11.22.33.44 80'])
    await world.forget()
    await world.server.ok('/v1/run', { json: { code, network: { mode: 'none' } } })
    expect((await world.seen()).connections).toEqual([])
  })
})
