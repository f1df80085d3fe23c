import { once } from 'node:events'
import { Duplex, PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as tlsConnect } from 'node:tls'
import { describe, expect, test } from 'vitest'
import type { EgressPolicy } from '../../policy/egress-policy.ts'
import { clientHello } from '../client-hello.ts'
import { a, cname } from '../dns-server.ts'
import { echo, http, OPEN, outcome, useGates, World } from '../world.ts'

useGates('second')

const RULES: EgressPolicy = {
  mode: 'allow',
  allow: [
    { domain: 'good.example' },
    { domain: '*.wild.example', ports: [443, 80] },
    { cidr: '11.9.0.0/16' },
  ],
  secrets: [],
}
/** Both names are on one address, as with a CDN. */
const ZONE: Record<string, string> = {
  'good.example': '11.0.0.1',
  'evil.example': '11.0.0.1',
  'a.wild.example': '11.0.0.2',
  'private.wild.example': '10.0.0.9',
}
const say = ({ name }: { name: string }) => (ZONE[name] ? { answers: [a(name, ZONE[name])] } : { rcode: 3 })
const get = (host: string) => `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`

describe('rules for names', () => {
  test('reach an address only after its name was asked for', async () => {
    await using world = await World.open(RULES, {}, say)
    await world.serve('11.0.0.1', 80, http([]))
    expect(await world.exchange('11.0.0.1', 80, get('good.example'))).toBe('reset')
    await world.lookUp('GOOD.example.')
    expect(await world.exchange('11.0.0.1', 80, get('good.example'))).toContain('hello from good.example')
    await world.gateWorker.close()
    expect(world.denials).toMatchObject([{ address: '11.0.0.1', reason: 'no rule allows it' }])
  })

  test('do not let a request ask for another name at the same address', async () => {
    await using world = await World.open(RULES, {}, say)
    const reached: string[] = []
    await world.serve('11.0.0.1', 80, (socket) => socket.on('data', (chunk) => reached.push(String(chunk))))
    await world.lookUp('good.example')
    for (const host of ['evil.example', '11.0.0.1', 'good.example.evil.example', '']) {
      expect(await world.exchange('11.0.0.1', 80, get(host))).toBe('reset')
    }
    expect(reached).toEqual([])
    await world.gateWorker.close()
    expect(world.denials[0]).toMatchObject({ name: 'evil.example', address: '11.0.0.1', port: 80 })
  })

  test('do not let TLS ask for another name, or for none', async () => {
    await using world = await World.open(RULES, {}, say)
    const reached: Buffer[] = []
    await world.serve('11.0.0.1', 443, (socket) => socket.on('data', (chunk) => reached.push(chunk)))
    await world.lookUp('good.example')
    for (const servername of ['evil.example', '']) {
      const secure = tlsConnect({ socket: world.connect('11.0.0.1', 443), servername })
      const [error] = (await once(secure, 'error')) as [NodeJS.ErrnoException]
      expect(error.code).toBe('ECONNRESET')
    }
    expect(reached).toEqual([])
    const socket = world.connect('11.0.0.1', 443)
    tlsConnect({ socket, servername: 'Good.Example' }).on('error', () => {})
    await expect.poll(() => reached).toHaveLength(1)
    socket.destroy()
  })

  test('read what a client says first whenever it says it', async () => {
    await using world = await World.open(RULES, {}, say)
    const reached: Buffer[] = []
    await world.serve('11.0.0.1', 80, (socket) => {
      socket.write('220 welcome\r\n')
      socket.on('data', (chunk) => reached.push(chunk))
    })
    await world.lookUp('good.example')
    const socket = world.connect('11.0.0.1', 80)
    // A server that speaks first is heard at once.
    expect(String((await once(socket, 'data'))[0])).toBe('220 welcome\r\n')
    await sleep(600)
    const seen = outcome(socket)
    socket.write('GET / HTTP/1.1\r\nHo')
    await sleep(50)
    expect(reached).toEqual([])
    socket.write('st: evil.example\r\n\r\n')
    expect(await seen).toBe('reset')
    expect(reached).toEqual([])
  })

  test('let protocols through that send no host name', async () => {
    await using world = await World.open(RULES, {}, say)
    await world.serve('11.0.0.1', 22, echo)
    await world.lookUp('good.example')
    expect(await world.exchange('11.0.0.1', 22, 'SSH-2.0-x\r\n')).toBe('SSH-2.0-x\r\n')
    expect(await world.exchange('11.0.0.1', 22, '')).toBe('')
    expect(await world.exchange('11.0.0.1', 22, 'hello')).toBe('hello')
    // This could become a request to any host.
    expect(await world.exchange('11.0.0.1', 22, 'GET / HTTP/1.0\r\nX: y\r\n')).toBe('reset')
  })

  test('hold for their ports', async () => {
    await using world = await World.open(RULES, {}, say)
    for (const port of [80, 8080]) await world.serve('11.0.0.2', port, http([]))
    await world.lookUp('a.wild.example')
    expect(await world.exchange('11.0.0.2', 80, get('a.wild.example'))).toContain('hello from a.wild.example')
    expect(await world.exchange('11.0.0.2', 8080, get('a.wild.example'))).toBe('reset')
  })

  test('never lead to an address that is not public, directly or by another name', async () => {
    await using world = await World.open(RULES, {}, (asked) =>
      asked.name === 'chain.wild.example'
        ? { answers: [cname(asked.name, 'inner.corp'), a('inner.corp', '10.0.0.9')] }
        : say(asked),
    )
    for (const name of ['private.wild.example', 'chain.wild.example']) {
      const answer = await world.lookUp(name)
      expect(answer.readUInt16BE(6)).toBe(0)
      expect(answer.includes('corp')).toBe(false)
    }
    expect(await world.exchange('10.0.0.9', 80, get('private.wild.example'))).toBe('reset')
  })

  test('with a range, everything in it is reached, whatever it says', async () => {
    await using world = await World.open(RULES, {}, say)
    await world.serve('11.9.0.1', 80, echo)
    expect(await world.exchange('11.9.0.1', 80, get('evil.example'))).toBe(get('evil.example'))
    expect(await world.exchange('11.8.0.1', 80, 'x')).toBe('reset')
  })

  test('close connections that were opened before names were checked', async () => {
    await using world = await World.open(OPEN, {}, say)
    await world.serve('11.0.0.1', 80, echo)
    await world.lookUp('good.example')
    const socket = world.connect('11.0.0.1', 80)
    socket.write(get('evil.example'))
    await once(socket, 'data')
    const seen = outcome(socket)
    await world.gateWorker.change('one', RULES)
    expect(await seen).toBe('reset')
  })
})

describe('requests on a connection that was allowed for one name', () => {
  const POST = 'POST / HTTP/1.1\r\nHost: good.example\r\n'
  const evil = get('evil.example')
  test.each([
    ['a second one, behind the first', get('good.example') + evil],
    ['one behind a body with a length', `${POST}Content-Length: 4\r\n\r\nbody${evil}`],
    ['one behind a body in chunks', `${POST}Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n${evil}`],
    ['one in a body that has two lengths', `${POST}Content-Length: 0\r\nContent-Length: 99\r\n\r\n${evil}`],
    [
      'one that a length hides and chunks show',
      `${POST}Content-Length: ${evil.length + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${evil}`,
    ],
    ['one in chunks that are not', `${POST}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${evil}`],
    [
      'one for the same name and another address',
      `${get('good.example')}GET http://evil.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n`,
    ],
    [
      'one in HTTP/2, after an upgrade',
      'GET / HTTP/1.1\r\nHost: good.example\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    ],
    ['one through a tunnel', `CONNECT good.example:80 HTTP/1.1\r\nHost: good.example:80\r\n\r\n${evil}`],
  ])('never ask for another: %s', async (_what, text) => {
    await using world = await World.open(RULES, {}, say)
    const seen: string[] = []
    const raw: string[] = []
    const serve = http(seen)
    await world.serve('11.0.0.1', 80, (socket) => {
      // Node's server would read a plain socket past everybody else who listens.
      const readable = socket.pipe(new PassThrough())
      socket.on('data', (chunk) => raw.push(String(chunk)))
      serve(Duplex.from({ readable, writable: socket }))
    })
    await world.lookUp('good.example')
    await world.exchange('11.0.0.1', 80, text)
    expect(seen.filter((one) => !one.startsWith('good.example'))).toEqual([])
    expect(raw.join('')).not.toContain('evil.example')
    expect(raw.join('')).not.toContain('PRI')
  })

  test('are refused with an answer, and told of', async () => {
    await using world = await World.open(RULES, {}, say)
    const seen: string[] = []
    await world.serve('11.0.0.1', 80, http(seen))
    await world.lookUp('good.example')
    const kept = world.connect('11.0.0.1', 80)
    for (const path of ['/one', '/two']) {
      kept.write(`GET ${path} HTTP/1.1\r\nHost: good.example\r\n\r\n`)
      expect(String((await once(kept, 'data'))[0])).toContain('200 OK')
    }
    kept.write(get('evil.example'))
    expect(await outcome(kept)).toMatch(/^HTTP\/1.1 421 .*"code":"misdirected"/s)
    expect(seen).toEqual(['good.example /one', 'good.example /two'])
    await world.gateWorker.close()
    expect(world.denials).toMatchObject([
      {
        name: 'evil.example',
        address: '11.0.0.1',
        port: 80,
        reason: 'asked for on a connection for good.example',
      },
    ])
    expect(world.counters.read()).toMatchObject({ bytesOut: expect.toSatisfy((n: number) => n > 100) })
  })

  test('pass with bodies, and other protocols after an upgrade', async () => {
    await using world = await World.open(RULES, {}, say)
    await world.serve('11.0.0.1', 80, (socket) => {
      let received = ''
      socket.on('data', (chunk) => {
        received += chunk
        if (received.includes('socket') && received.endsWith('\r\n\r\n'))
          socket.write(
            'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
          )
        else if (received.endsWith('ping')) socket.end('pong')
        else if (received.endsWith('0\r\n\r\n')) socket.end(`HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`)
      })
    })
    await world.lookUp('good.example')
    const socket = world.connect('11.0.0.1', 80)
    socket.write('GET / HTTP/1.1\r\nHost: good.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n')
    expect(String((await once(socket, 'data'))[0])).toContain('101 Switching')
    socket.write('ping')
    expect(await outcome(socket)).toBe('pong')
    const body = 'Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n'
    expect(await world.exchange('11.0.0.1', 80, `${POST}${body}`)).toMatch(/ok$/)
  })
})

describe('TLS that hides its server name', () => {
  test('is refused, and told why', async () => {
    await using world = await World.open(RULES, {}, say)
    const reached: Buffer[] = []
    await world.serve('11.0.0.1', 443, (socket) => socket.on('data', (chunk) => reached.push(chunk)))
    await world.lookUp('good.example')
    const hello = await clientHello('good.example')
    const hidden = Buffer.from(hello)
    hidden.writeUInt16BE(0xfe0d, hidden.indexOf('good.example') + 'good.example'.length)
    expect(await world.exchange('11.0.0.1', 443, hidden)).toBe('reset')
    expect(await world.exchange('11.0.0.1', 443, await clientHello(undefined))).toBe('reset')
    expect(reached).toEqual([])
    await world.gateWorker.close()
    expect(world.denials.map(({ reason }) => reason)).toEqual([
      'TLS with an encrypted ClientHello, which hides the name that it asks for',
      'TLS without a name (no SNI)',
    ])
  })
})

describe('registries', () => {
  const registries = [
    { host: '10.77.0.1', port: 3141 },
    { host: 'mirror.corp.example', port: 4873 },
  ]
  const WIDE: EgressPolicy = { mode: 'allow', allow: [{ domain: '*.corp.example' }], secrets: [] }

  test('are reached at their port, even on this host, and no other port of it', async () => {
    await using world = await World.open(OPEN, { registries })
    for (const port of [3141, 22]) await world.serve('10.77.0.1', port, http([]))
    expect(await world.exchange('10.77.0.1', 3141, get('10.77.0.1:3141'))).toContain('hello from 10.77.0.1')
    expect(await world.exchange('10.77.0.1', 22, get('10.77.0.1:22'))).toBe('reset')
    await world.gateWorker.change('one', RULES)
    expect(await world.exchange('10.77.0.1', 3141, get('10.77.0.1:3141'))).toBe('reset')
  })

  test.each([
    ['public', OPEN],
    ['allow', WIDE],
  ])('in %s open no other host behind their address', async (_mode, policy) => {
    await using world = await World.open(policy, { registries }, say)
    const seen: string[] = []
    for (const port of [3141, 4873]) await world.serve('10.77.0.1', port, http(seen))
    await world.lookUp('mirror.corp.example')
    expect(await world.exchange('10.77.0.1', 4873, get('mirror.corp.example'))).toContain('hello from mirror')
    for (const text of [
      get('wiki.corp.example'),
      get('10.77.0.1'),
      'GET / HTTP/1.0\r\n\r\n',
      'GET /\r\n',
      'hello\r\n',
      '',
      await clientHello('wiki.corp.example'),
      await clientHello(undefined),
    ])
      expect(['reset', '']).toContain(await world.exchange('10.77.0.1', 4873, text))
    expect(
      await world.exchange('10.77.0.1', 4873, get('mirror.corp.example') + get('wiki.corp.example')),
    ).toContain('421')
    for (const text of [
      get('wiki.corp.example'),
      get('mirror.corp.example'),
      await clientHello('wiki.corp.example'),
    ])
      expect(await world.exchange('10.77.0.1', 3141, text)).toBe('reset')
    expect(seen).toEqual(['mirror.corp.example /', 'mirror.corp.example /'])
  })

  test('hear nothing and say nothing before they are asked for by name', async () => {
    await using world = await World.open(OPEN, { registries })
    let visits = 0
    await world.serve('10.77.0.1', 4873, (socket) => {
      visits += 1
      socket.write('220 welcome\r\n')
    })
    await world.lookUp('mirror.corp.example')
    const waiting = world.connect('10.77.0.1', 4873)
    const seen = outcome(waiting)
    await sleep(600)
    waiting.end('EHLO\r\n')
    expect([await seen, visits]).toEqual(['reset', 0])
  })

  test('speak TLS under their name, and without one where they are known by address', async () => {
    await using world = await World.open(OPEN, { registries })
    const reached: number[] = []
    for (const port of [3141, 4873])
      await world.serve('10.77.0.1', port, (socket) => socket.once('data', () => reached.push(port)))
    await world.lookUp('mirror.corp.example')
    const clients = [
      tlsConnect({ socket: world.connect('10.77.0.1', 4873), servername: 'mirror.corp.example' }),
      tlsConnect({ socket: world.connect('10.77.0.1', 3141) }),
    ]
    for (const client of clients) client.on('error', () => {})
    await expect.poll(() => reached.toSorted()).toEqual([3141, 4873])
    for (const client of clients) client.destroy()
  })
})
