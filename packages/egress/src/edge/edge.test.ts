import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, RequestListener } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { EdgeWorld, NAME, SECRET } from './testing/edge-world.ts'

const { placeholder, value } = SECRET

/** Answers how each header arrived, backwards, where nothing finds a secret in it. */
const echo: RequestListener = (request, response) => {
  const seen = { method: request.method, url: request.url, headers: request.rawHeaders }
  response.end(Buffer.from(JSON.stringify(seen), 'latin1').reverse())
}

function seenIn(text: string): { method: string; url: string; headers: string[] } {
  return JSON.parse(Buffer.from(text, 'latin1').reverse().toString('latin1'))
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece)
  return Buffer.concat(pieces)
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; !condition(); tries += 1) {
    if (tries === 200) throw new Error('it did not come to that')
    await sleep(10)
  }
}

describe('what the server receives', () => {
  test('has the secret wherever a header had the placeholder, and is otherwise as it was sent', async () => {
    await using world = await EdgeWorld.open(echo)
    const { text, status } = await world.ask({
      path: `/v1/x?key=${placeholder}`,
      headers: {
        host: NAME,
        Authorization: `Bearer ${placeholder}`,
        'X-Several': `${placeholder}, and ${placeholder}.`,
        'X-Other': 'dormouse-secret-of-another-domain',
      },
    })
    expect(status).toBe(200)
    const seen = seenIn(text)
    expect(seen.url).toBe(`/v1/x?key=${placeholder}`)
    expect(seen.headers).toEqual([
      ...['host', NAME],
      ...['Authorization', `Bearer ${value}`],
      ...['X-Several', `${value}, and ${value}.`],
      ...['X-Other', 'dormouse-secret-of-another-domain'],
      ...['Accept-Encoding', 'identity'],
      ...['Connection', 'keep-alive'],
    ])
  })

  test('has the secret inside of Basic credentials, too', async () => {
    await using world = await EdgeWorld.open(echo)
    const { text } = await world.ask({ auth: `user:${placeholder}` })
    const { headers } = seenIn(text)
    expect(headers).toContain(`Basic ${Buffer.from(`user:${value}`).toString('base64')}`)
  })

  test('is the body byte by byte: no placeholder in it is touched', async () => {
    await using world = await EdgeWorld.open(async (request, response) => {
      response.end((await bodyOf(request)).toString('base64'))
    })
    const { text } = await world.ask({ method: 'POST', body: `{"key": "${placeholder}"}` })
    expect(Buffer.from(text, 'base64').toString()).toBe(`{"key": "${placeholder}"}`)
  })

  test('keeps headers that came twice, each with the secret', async () => {
    await using world = await EdgeWorld.open(echo)
    const { text } = await world.ask({ headers: { host: NAME, 'X-Key': [placeholder, placeholder] } })
    const { headers } = seenIn(text)
    expect(headers.filter((text) => text === value)).toHaveLength(2)
  })

  test('is what holds now: a changed value counts from the next request on', async () => {
    await using world = await EdgeWorld.open(echo)
    const socket = await world.connect()
    const ask = async () => {
      socket.write(`GET / HTTP/1.1\r\nHost: ${NAME}\r\nX-Key: ${placeholder}\r\n\r\n`)
      const [data] = await once(socket, 'data')
      return seenIn(data.toString().split('\r\n\r\n')[1]).headers
    }
    expect(await ask()).toContain(value)
    world.secrets = [{ ...SECRET, value: 'the-next-one' }]
    expect(await ask()).toContain('the-next-one')
    world.secrets = []
    expect(await ask()).toContain(placeholder)
    expect(world.dials).toBe(1)
    socket.destroy()
  })
})

describe('requests of every kind pass', () => {
  test('large bodies in both directions, with back-pressure', async () => {
    await using world = await EdgeWorld.open((request, response) => {
      response.writeHead(200, { 'content-length': request.headers['content-length'] })
      request.pipe(response)
    })
    const body = randomBytes(16 * 1024 ** 2)
    const asked = world.open({ method: 'POST', headers: { host: NAME, 'content-length': body.length } })
    asked.end(body)
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    // The client does not read, so the echo stays in buffers.
    await sleep(300)
    expect((await bodyOf(answer)).equals(body)).toBe(true)
  })

  test('pieces and trailers, both ways', async () => {
    await using world = await EdgeWorld.open(async (request, response) => {
      response.writeHead(200, { Trailer: 'X-End' })
      response.write(`${await bodyOf(request)} `)
      response.addTrailers({ 'X-End': String(request.trailers['x-sum']) })
      response.end(request.headers['transfer-encoding'])
    })
    const asked = world.open({ method: 'PUT', headers: { host: NAME, Trailer: 'X-Sum' } })
    asked.write('one ')
    await sleep(20)
    asked.write('two')
    asked.addTrailers({ 'X-Sum': '7' })
    asked.end()
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    expect((await bodyOf(answer)).toString()).toBe('one two chunked')
    expect(answer.trailers).toEqual({ 'x-end': '7' })
  })

  test('a body that is announced waits for the server to want it', async () => {
    await using world = await EdgeWorld.open(async (request, response) => {
      response.end((await bodyOf(request)).toString())
    })
    const order: string[] = []
    world.outside.on('checkContinue', (request, response) => {
      order.push('asked')
      response.writeContinue()
      world.outside.emit('request', request, response)
    })
    const asked = world.open({
      method: 'POST',
      headers: { host: NAME, Expect: '100-continue', 'content-length': 2 },
    })
    asked.flushHeaders()
    await once(asked, 'continue')
    order.push('continue')
    asked.end('ok')
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    expect((await bodyOf(answer)).toString()).toBe('ok')
    expect(order).toEqual(['asked', 'continue'])
  })

  test('HEAD, 204, 304 and hints', async () => {
    await using world = await EdgeWorld.open((request, response) => {
      if (request.url === '/hints') response.writeEarlyHints({ link: ['</a.css>; rel=preload'] })
      response.writeHead(request.url === '/hints' ? 200 : Number(request.url?.slice(1)), {
        'x-is': 'here',
        ...(request.method === 'HEAD' && { 'content-length': 1234 }),
      })
      response.end()
    })
    expect(await world.ask({ method: 'HEAD', path: '/200' })).toMatchObject({
      status: 200,
      headers: { 'content-length': '1234', 'x-is': 'here' },
      text: '',
    })
    expect(await world.ask({ path: '/204' })).toMatchObject({ status: 204, text: '' })
    expect(await world.ask({ path: '/304' })).toMatchObject({ status: 304, text: '' })
    const asked = world.open({ path: '/hints' })
    asked.end()
    const [information] = await once(asked, 'information')
    expect(information).toMatchObject({ statusCode: 103, headers: { link: '</a.css>; rel=preload' } })
    asked.destroy()
  })

  test('many over one connection, also without waiting for answers, over one to the server', async () => {
    await using world = await EdgeWorld.open((request, response) => response.end(request.url))
    const one = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: ${NAME}\r\n${more}\r\n`
    const text = await world.send(one('/a') + one('/b') + one('/c', 'Connection: close\r\n'))
    expect(text.match(/^\/[abc]|(?<=\n)\/[abc]/g)?.join('')).toBe('/a/b/c')
    expect(world.dials).toBe(1)
  })

  test('WebSockets: the first request with the secret, and then bytes as they are', async () => {
    await using world = await EdgeWorld.open(echo)
    world.outside.on('upgrade', (request, socket) => {
      socket.write(`HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Is: 1\r\n\r\n`)
      socket.write(Buffer.from(String(request.headers['x-key'])).toString('base64'))
      socket.pipe(socket)
    })
    const asked = world.open({
      headers: { host: NAME, Connection: 'Upgrade', Upgrade: 'websocket', 'X-Key': placeholder },
    })
    asked.end()
    const [answer, socket, head] = await once(asked, 'upgrade')
    expect(answer.headers).toMatchObject({ upgrade: 'websocket', 'x-is': '1' })
    let received = head.toString('latin1')
    socket.on('data', (data: Buffer) => {
      received += data.toString('latin1')
    })
    socket.write(placeholder)
    const expected = Buffer.from(value).toString('base64') + placeholder
    await until(() => received.length >= expected.length)
    expect(received).toBe(expected)
    socket.destroy()
    await until(() => world.openConnections === 0)
  })

  test('a WebSocket leaves no more listeners on its connections than Node finds usual', async () => {
    const warnings: string[] = []
    const onWarning = ({ message }: Error) => void warnings.push(message)
    process.on('warning', onWarning)
    await using world = await EdgeWorld.open(echo)
    world.outside.on('upgrade', (_request, socket) => {
      socket.write(`HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`)
    })
    const asked = world.open({ headers: { host: NAME, Connection: 'Upgrade', Upgrade: 'websocket' } })
    asked.end()
    const [, socket] = await once(asked, 'upgrade')
    socket.destroy()
    await until(() => world.openConnections === 0)
    process.off('warning', onWarning)
    expect(warnings).toEqual([])
  })

  test('an upgrade that the server does not want is an ordinary answer', async () => {
    await using world = await EdgeWorld.open((_request, response) => response.writeHead(403).end('no'))
    const { status, text } = await world.ask({
      headers: { host: NAME, Connection: 'Upgrade', Upgrade: 'websocket' },
    })
    expect([status, text]).toEqual([403, 'no'])
  })
})

describe('what breaks off', () => {
  test('a client that goes away takes its request with it', async () => {
    let isEnded = false
    await using world = await EdgeWorld.open((_request, response) => {
      response.write('begun')
      response.once('close', () => {
        isEnded = true
      })
    })
    const asked = world.open({})
    asked.end()
    await once(asked, 'response')
    asked.destroy()
    await until(() => isEnded && world.openConnections === 0)
  })

  test('a client that the gate ends takes both connections with it, in the middle of an answer or of a WebSocket', async () => {
    await using world = await EdgeWorld.open((_request, response) => response.write('begun'))
    world.outside.on('upgrade', (_request, socket) => {
      socket.write(`HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`)
    })
    const asked = world.open({})
    asked.end()
    const upgraded = world.open({ headers: { host: NAME, Connection: 'Upgrade', Upgrade: 'websocket' } })
    upgraded.end()
    const [[answer], [, socket]] = await Promise.all([once(asked, 'response'), once(upgraded, 'upgrade')])
    for (const stream of [answer, socket]) stream.on('error', () => {}).resume()
    expect(world.openConnections).toBe(4)
    world.endClients()
    await until(() => world.openConnections === 0)
  })

  test('an answer that the server does not finish is not finished for the client', async () => {
    await using world = await EdgeWorld.open((request, response) => {
      response.writeHead(200, { 'content-length': 100 })
      response.write('half', () => request.socket.destroy())
    })
    await expect(world.ask()).rejects.toThrow(/aborted/)
    await until(() => world.openConnections === 0)
  })

  test('a server that ends an idle connection ends the one of the client', async () => {
    await using world = await EdgeWorld.open((request, response) => {
      response.end('x', () => setTimeout(() => request.socket.destroy(), 50))
    })
    const text = await world.send(`GET / HTTP/1.1\r\nHost: ${NAME}\r\n\r\n`)
    expect(text).toContain('HTTP/1.1 200')
  })

  test('an answer that comes before the request is complete arrives, also when the server hangs up then', async () => {
    await using world = await EdgeWorld.open((_request, response) => {
      response.writeHead(413, { connection: 'close' }).end('too much')
    })
    const asked = world.open({ method: 'POST', headers: { host: NAME, 'content-length': 1e9 } })
    const sending = setInterval(() => asked.write(randomBytes(64 * 1024)), 1)
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    const text = (await bodyOf(answer)).toString()
    clearInterval(sending)
    expect([answer.statusCode, text]).toEqual([413, 'too much'])
    asked.destroy()
    await until(() => world.openConnections === 0)
  })

  test('what a server says about keeping the connection is passed on', async () => {
    await using world = await EdgeWorld.open((_request, response) => response.end('x'))
    world.outside.keepAliveTimeout = 7_000
    const { headers } = await world.ask({ headers: { host: NAME, connection: 'keep-alive' } })
    expect(headers).toMatchObject({ connection: 'keep-alive', 'keep-alive': 'timeout=7' })
  })

  test('a server that hangs up without an answer is passed on as that', async () => {
    await using world = await EdgeWorld.open((request) => request.socket.destroy())
    await expect(world.ask()).rejects.toThrow(/hang up|ECONNRESET/)
  })
})
