import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { isWithoutProxy } from '../../dial/no-proxy.ts'
import { a } from '../dns-server.ts'
import { echo, http, OPEN, useGates, World } from '../world.ts'

useGates('third')

let proxy: Server
let heads: string[]
let status: string
beforeEach(async () => {
  heads = []
  status = '200 Connection established'
  proxy = createServer({ allowHalfOpen: true }, (client) => {
    client.on('error', () => {})
    client.once('data', (bytes) => {
      heads.push(bytes.toString())
      const [, host = '', port] = /^CONNECT (\S+):(\d+) /.exec(bytes.toString()) ?? []
      if (!status.startsWith('200')) return client.end(`HTTP/1.1 ${status}\r\n\r\n`)
      // The only one that can resolve names here.
      const server = connect({
        port: Number(port),
        host: host === 'far.example' ? '11.0.0.7' : host,
        allowHalfOpen: true,
      })
      server.once('connect', () => {
        client.write(`HTTP/1.1 ${status}\r\nX-Proxy: yes\r\n\r\n`)
        client.pipe(server).pipe(client)
      })
      server.on('error', () => client.destroy())
    })
  }).listen(3128, '10.77.0.1')
  await once(proxy, 'listening')
})
afterEach(() => {
  proxy.close()
})

const url = 'http://user:p%40ss@10.77.0.1:3128'

describe('a host behind a proxy', () => {
  test('goes through it to the address that was judged, and keeps its password', async () => {
    await using world = await World.open(OPEN, { proxy: { url } }, () => ({
      answers: [a('near.example', '11.0.0.7')],
    }))
    await world.serve('11.0.0.7', 80, echo)
    await world.lookUp('near.example')
    expect(await world.exchange('11.0.0.7', 80, 'hello')).toBe('hello')
    expect(heads[0]).toMatch(/^CONNECT 11\.0\.0\.7:80 HTTP\/1\.1\r\n/)
    expect(heads[0]).toContain(`Proxy-Authorization: Basic ${Buffer.from('user:p@ss').toString('base64')}`)
  })

  test('does not go through it to what NO_PROXY names', async () => {
    await using world = await World.open(OPEN, { proxy: { url, noProxy: ['11.0.0.0/24'] } })
    await world.serve('11.0.0.7', 80, echo)
    expect(await world.exchange('11.0.0.7', 80, 'hello')).toBe('hello')
    expect(heads).toEqual([])
  })

  test('resets what the proxy refuses', async () => {
    status = '403 Forbidden'
    await using world = await World.open(OPEN, { proxy: { url } })
    expect(await world.exchange('11.0.0.7', 80, 'hello')).toBe('reset')
  })

  test('leaves names to it when told so, and still keeps to the rules', async () => {
    const rules = { mode: 'allow', allow: [{ domain: 'far.example', ports: [80] }], secrets: [] } as const
    await using world = await World.open(rules, { proxy: { url, resolves: true } })
    await world.serve('11.0.0.7', 80, http([]))
    const answer = await world.lookUp('far.example')
    const address = [...answer.subarray(-4)].join('.')
    expect(address).toBe('198.19.0.1')
    const get = 'GET / HTTP/1.1\r\nHost: far.example\r\n\r\n'
    expect(await world.exchange(address, 80, get)).toContain('hello from far.example')
    expect(heads[0]).toMatch(/^CONNECT far\.example:80 /)
    expect(await world.exchange(address, 81, get)).toBe('reset')
    expect(await world.exchange('198.19.0.2', 80, get)).toBe('reset')
    expect(await world.exchange(address, 80, get.replace('far', 'evil'))).toBe('reset')
    expect(world.names.asked).toEqual([])
  })

  test('leaves names to it by itself only where no name server has ever answered', async () => {
    await using silent = await World.open(OPEN, { proxy: { url }, resolvers: [] })
    expect([...(await silent.lookUp('far.example')).subarray(-4)].join('.')).toBe('198.19.0.1')
    // A name that fails, on a host where others do not, stays one that fails: it may be meant to.
    await using working = await World.open(OPEN, { proxy: { url } }, ({ name }) =>
      name === 'far.example' ? { rcode: 2 } : { rcode: 3 },
    )
    expect((await working.lookUp('far.example')).readUInt16BE(2) & 0xf).toBe(2)
  })

  test('a connection whose sandbox has given up leaves nothing at the proxy', async () => {
    const held: Socket[] = []
    proxy.removeAllListeners('connection')
    proxy.on('connection', (socket) => held.push(socket))
    await using world = await World.open(OPEN, { proxy: { url } })
    const client = world.connect('11.0.0.7', 80)
    while (held.length === 0) await new Promise((resolve) => setImmediate(resolve))
    client.resetAndDestroy()
    held[0]!.on('error', () => {}).resume()
    held[0]!.write('HTTP/1.1 200 OK\r\n\r\n')
    await new Promise((resolve) => held[0]!.once('close', resolve))
  })
})

describe('NO_PROXY', () => {
  test.each([
    [['example.com'], ['example.com'], 80, true],
    [['.example.com'], ['a.example.com'], 80, true],
    [['example.com'], ['a.example.com'], 80, true],
    [['example.com'], ['notexample.com'], 80, false],
    [['*.example.com'], ['a.example.com'], 80, true],
    [['example.com:8080'], ['example.com'], 80, false],
    [['example.com:8080'], ['example.com'], 8080, true],
    [['10.0.0.0/8'], ['10.1.2.3'], 80, true],
    [['10.1.2.3'], ['10.1.2.3', 'x.example'], 80, true],
    [['2001:db8::/32'], ['2001:db8::5'], 80, true],
    [['[2001:db8::5]:80'], ['2001:db8::5'], 80, true],
    [['*'], ['anything.example'], 80, true],
    [['', ' '], ['anything.example'], 80, false],
    [[], ['anything.example'], 80, false],
  ])('%j for %j at %d: %s', (entries, hosts, port, expected) => {
    expect(isWithoutProxy(entries, hosts, port)).toBe(expected)
  })
})
