import { once } from 'node:events'
import { connect as tlsConnect } from 'node:tls'
import { describe, expect, test } from 'vitest'
import { EdgeWorld, NAME, SECRET } from './testing/edge-world.ts'

const { placeholder, value } = SECRET

/** What reached the server, to be looked for a secret in. */
function recorder() {
  const seen: string[] = []
  const open = async (options = {}) => {
    const world = await EdgeWorld.open((request, response) => {
      seen.push([request.method, request.url, ...request.rawHeaders].join(' '))
      response.end('ok')
    }, options)
    return world
  }
  return { seen, open }
}

const KEY = `X-Key: ${placeholder}\r\n`

describe('nothing is sent', () => {
  test.each([
    ['a Host of another domain', `GET / HTTP/1.1\r\nHost: evil.example\r\n${KEY}\r\n`, 421],
    ['a Host with another port', `GET / HTTP/1.1\r\nHost: ${NAME}:8443\r\n${KEY}\r\n`, 421],
    ['a Host that only begins like it', `GET / HTTP/1.1\r\nHost: ${NAME}.evil.example\r\n${KEY}\r\n`, 421],
    ['a user before the host', `GET / HTTP/1.1\r\nHost: ${NAME}@evil.example\r\n${KEY}\r\n`, 421],
    ['two Hosts', `GET / HTTP/1.1\r\nHost: ${NAME}\r\nHost: evil.example\r\n${KEY}\r\n`, 400],
    ['no Host', `GET / HTTP/1.0\r\n${KEY}\r\n`, 400],
    ['a whole address as target', `GET https://evil.example/ HTTP/1.1\r\nHost: ${NAME}\r\n${KEY}\r\n`, 421],
    ['CONNECT', `CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n${KEY}\r\n`, 405],
    ['TRACE', `TRACE / HTTP/1.1\r\nHost: ${NAME}\r\n${KEY}\r\n`, 405],
    ['the beginning of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    [
      'two lengths of a body',
      `POST / HTTP/1.1\r\nHost: ${NAME}\r\n${KEY}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      400,
    ],
    [
      'an encoding that hides another',
      `POST / HTTP/1.1\r\nHost: ${NAME}\r\n${KEY}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`,
      501,
    ],
    ['a header with a bare line end', `GET / HTTP/1.1\r\nHost: ${NAME}\r\nX: a\nHost: b\r\n\r\n`, 400],
    ['a space before the colon', `GET / HTTP/1.1\r\nHost: ${NAME}\r\nX-Key : a\r\n\r\n`, 400],
  ])('for %s', async (_what, text, status) => {
    const { seen, open } = recorder()
    await using world = await open()
    expect(await world.send(text)).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(seen).toEqual([])
    expect(world.dials).toBe(0)
  })

  test('of a head that is too large', async () => {
    const { seen, open } = recorder()
    await using world = await open()
    const text = await world.send(`GET / HTTP/1.1\r\nHost: ${NAME}\r\nX: ${'x'.repeat(70_000)}\r\n\r\n`)
    // It may still be sending when it is hung up on.
    expect(text).toMatch(/^$|^HTTP\/1.1 431 /)
    expect([seen, world.dials]).toEqual([[], 0])
  })

  test('behind a request that was refused', async () => {
    const { seen, open } = recorder()
    await using world = await open()
    const bad = `GET / HTTP/1.1\r\nHost: evil.example\r\n${KEY}\r\n`
    const good = `GET /next HTTP/1.1\r\nHost: ${NAME}\r\n${KEY}\r\n`
    expect((await world.send(bad + good)).match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 421'])
    expect(seen).toEqual([])
  })

  test('of requests without end whose answers the client does not read', async () => {
    let requests = 0
    await using world = await EdgeWorld.open(() => {
      requests += 1
    })
    const text = await world.send(`GET / HTTP/1.1\r\nHost: ${NAME}\r\n\r\n`.repeat(5000))
    expect([text, requests]).toEqual(['', expect.toSatisfy((count: number) => count <= 1)])
  })

  test('to a server that cannot be reached; a client that sends much also reads why', async () => {
    const { open } = recorder()
    await using world = await open({ connect: () => Promise.reject(new Error('no')) })
    const body = Buffer.alloc(4 * 1024 ** 2)
    const { status, text } = await world.ask({ method: 'POST', body })
    expect([status, JSON.parse(text).error.code]).toEqual([502, 'unreachable'])
  })

  test('of a body beyond many headers: its length is never lost', async () => {
    const { seen, open } = recorder()
    await using world = await open()
    const many = 'a:\r\n'.repeat(3000)
    const inner = `GET /smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n`
    const text = `GET / HTTP/1.1\r\nHost: ${NAME}\r\nConnection: close\r\n${many}Content-Length: ${inner.length}\r\n\r\n${inner}`
    await world.send(text)
    expect(seen.filter((line) => line.includes('/smuggled'))).toEqual([])
  })

  test.each([
    ['by a stranger', { isStranger: true }],
    ['for another name', { serverName: 'other.example.com' }],
  ])('to a server that is certified %s', async (_what, options) => {
    const { seen, open } = recorder()
    await using world = await open(options)
    const { status, text } = await world.ask({ headers: { host: NAME, 'X-Key': placeholder } })
    expect(status).toBe(502)
    expect(JSON.parse(text).error).toMatchObject({
      code: 'unverified',
      message: expect.stringContaining(`No verified TLS connection to ${NAME}`),
    })
    expect(text).not.toContain(value)
    expect(seen).toEqual([])
  })

  test('when the policy does not let it be dialled', async () => {
    const { open } = recorder()
    await using world = await open({ connect: () => Promise.reject(new Error(`denied ${value}`)) })
    const { status, text } = await world.ask()
    expect(status).toBe(502)
    expect(JSON.parse(text).error.code).toBe('unreachable')
    expect(text).not.toContain(value)
  })
})

test('a client that speaks only HTTP/2 gets no connection', async () => {
  const { open } = recorder()
  await using world = await open()
  const { port, inside } = world
  const socket = tlsConnect({
    ...{ host: '127.0.0.1', port, servername: NAME, ca: inside.certificate },
    ALPNProtocols: ['h2'],
  })
  const [error] = await once(socket, 'error')
  expect(error.code).toMatch(/NO_APPLICATION_PROTOCOL|ECONNRESET|TLSV1_ALERT/)
})

describe('what a server says of a secret', () => {
  test('is the placeholder in headers and asterisks in bodies, also where it is in two pieces', async () => {
    await using world = await EdgeWorld.open((request, response) => {
      const key = String(request.headers['x-key'])
      response.writeHead(200, { 'x-echo': `<${key}>`, 'content-length': 2 * key.length + 7 })
      response.write(`a ${key} b ${key.slice(0, 5)}`)
      setTimeout(() => response.end(`${key.slice(5)} c`), 20)
    })
    const { headers, text } = await world.ask({ headers: { host: NAME, 'X-Key': placeholder } })
    const hidden = '*'.repeat(value.length)
    expect(headers['x-echo']).toBe(`<${placeholder}>`)
    expect(text).toBe(`a ${hidden} b ${hidden} c`)
  })

  test('is the placeholder wherever else it can stand: reason, names of headers, trailers, hints, the answer to an upgrade', async () => {
    const answers = new Map([
      ['/hint', `HTTP/1.1 103 ${value}\r\nLink: </${value}>; rel=preload\r\n\r\nHTTP/1.1 204 OK\r\n\r\n`],
      ['/head', `HTTP/1.1 200 So ${value}\r\nX-${value}: 1\r\nContent-Length: 0\r\n\r\n`],
      [
        '/trailer',
        `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-End: <${value}>\r\nX-${value}: 1\r\n\r\n`,
      ],
      ['/upgrade', `HTTP/1.1 101 ${value}\r\nConnection: Upgrade\r\nUpgrade: x-${value}\r\n\r\n`],
    ])
    await using world = await EdgeWorld.open(() => {})
    for (const event of ['request', 'upgrade'])
      world.outside.prependListener(event, ({ url, socket }) => socket.end(answers.get(url)))
    for (const path of answers.keys()) {
      const more = path === '/upgrade' ? 'Connection: Upgrade\r\nUpgrade: x\r\n' : 'Connection: close\r\n'
      const text = await world.send(`GET ${path} HTTP/1.1\r\nHost: ${NAME}\r\n${more}\r\n`)
      expect(text, path).toContain(placeholder)
      expect(text.toLowerCase(), path).not.toContain(value)
    }
  })

  test('does not hold back what only looks like its beginning', async () => {
    await using world = await EdgeWorld.open((_request, response) => {
      response.end(`${value.slice(0, -1)}!${value.slice(0, 5)}`)
    })
    expect((await world.ask()).text).toBe(`${value.slice(0, -1)}!${value.slice(0, 5)}`)
  })
})
