import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bodyConcealer } from './conceal.ts'
import { EdgeWorld, NAME, SECRET } from './testing/edge-world.ts'

const { placeholder, value } = SECRET
const KEY = { host: NAME, 'X-Key': placeholder }

/** A server that answers with its request's headers, in this encoding, whatever it was asked for. */
function echo(encoding: string, encode: (text: string) => Buffer) {
  return EdgeWorld.open((request, response) => {
    const body = encode(`<${request.rawHeaders.join('|')}>`)
    response.writeHead(200, { 'content-encoding': encoding, 'content-length': body.length }).end(body)
  })
}

describe('an answer that is compressed', () => {
  test.each([
    ['gzip', gzipSync],
    ['x-gzip', gzipSync],
    ['GZIP', gzipSync],
    ['deflate', deflateSync],
  ])('with %s is uncompressed, and repeats no secret', async (encoding, encode) => {
    await using world = await echo(encoding, encode)
    const { status, headers, text } = await world.ask({ headers: { ...KEY, 'accept-encoding': 'gzip' } })
    expect([status, headers['content-encoding']]).toEqual([200, undefined])
    expect(text).toMatch(/^<.*X-Key\|\*{24}.*>$/)
    expect(text).not.toContain(value)
  })

  test.each([
    ['br', brotliCompressSync],
    ['gzip, gzip', (text: string) => gzipSync(gzipSync(text))],
    ['mine', (text: string) => Buffer.from(text).reverse()],
  ])('with %s is refused', async (encoding, encode) => {
    await using world = await echo(encoding, encode)
    const { status, text } = await world.ask({ headers: KEY })
    expect([status, JSON.parse(text).error.code]).toEqual([502, 'encoded'])
  })

  test('and is no such thing breaks off, and shows nothing of it', async () => {
    await using world = await echo('gzip', (text) => Buffer.from(text))
    await expect(world.ask({ headers: KEY })).rejects.toThrow(/aborted|hang up|ECONNRESET/)
  })

  test('and has no body is passed on', async () => {
    await using world = await EdgeWorld.open((_request, response) =>
      response.writeHead(304, { 'content-encoding': 'br' }).end(),
    )
    expect(await world.ask({ headers: KEY })).toMatchObject({
      status: 304,
      headers: { 'content-encoding': 'br' },
    })
  })

  test('is read no faster than the client reads, however much comes of it', async () => {
    const bomb = gzipSync(Buffer.alloc(256 * 1024 ** 2))
    await using world = await EdgeWorld.open((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb),
    )
    const before = process.memoryUsage().rss
    const socket = await world.connect()
    socket.on('error', () => {})
    socket.write(`GET / HTTP/1.1\r\nHost: ${NAME}\r\n\r\n`)
    await new Promise((resolve) => socket.once('readable', resolve))
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(process.memoryUsage().rss - before).toBeLessThan(64 * 1024 ** 2)
    socket.destroy()
  })
})

test('the gate asks a server for an answer that it can search: no compression, no ranges, no extensions', async () => {
  await using world = await echo('identity', (text) => Buffer.from(text))
  const wanted = { 'accept-encoding': 'gzip, br', range: 'bytes=0-3', 'if-range': 'x', te: 'trailers, gzip' }
  const { text } = await world.ask({ headers: { ...KEY, ...wanted, 'sec-websocket-extensions': 'deflate' } })
  expect(text).toContain('|Accept-Encoding|identity')
  expect(text).not.toMatch(/gzip|range|bytes=|extensions/i)
})

describe('a value in another form', () => {
  const forms: [string, (text: string) => string][] = [
    ['Base64', (text) => Buffer.from(text).toString('base64')],
    ['Base64 behind one byte', (text) => Buffer.from(`u${text}:tail`).toString('base64')],
    ['Base64 behind two bytes', (text) => Buffer.from(`us${text}`).toString('base64url')],
    ['hex', (text) => Buffer.from(text).toString('hex')],
    ['HEX', (text) => Buffer.from(text).toString('hex').toUpperCase()],
    ['a URL', (text) => encodeURIComponent(text)],
    ['a form', (text) => new URLSearchParams({ text }).toString()],
    ['JSON', (text) => JSON.stringify(text)],
    ['JSON of PHP', (text) => JSON.stringify(text).replaceAll('/', '\\/')],
    ['HTML', (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')],
  ]
  const odd = { ...SECRET, value: 'p&ss "word"/+<1>\\2' }
  test.each(forms)('is not repeated: %s', async (_form, encode) => {
    await using world = await EdgeWorld.open(
      (request, response) => {
        const text = encode(String(request.headers['x-key']))
        response.writeHead(200, { 'x-echo': text }).end(`a ${text} z`)
      },
      { secrets: [odd] },
    )
    const { headers, text } = await world.ask({ headers: KEY })
    const full = encode(odd.value)
    expect(text).toHaveLength(full.length + 4)
    for (const shown of [text, String(headers['x-echo'])]) {
      // A few characters at the edges of Base64 belong to what is around it, too.
      expect(shown).toMatch(/\*{8}|dormouse-secret/)
      expect(shown).not.toContain(full.slice(4, -4))
    }
  })

  test('is not repeated by a server that echoes the password of Basic', async () => {
    await using world = await EdgeWorld.open((request, response) => {
      response.end(String(request.headers.authorization))
    })
    const { text } = await world.ask({ headers: { host: NAME }, auth: `me:${placeholder}` })
    const decoded = Buffer.from(text.replace('Basic ', ''), 'base64').toString('latin1')
    expect(text).toMatch(/^Basic .*\*{28}/)
    expect(decoded).not.toContain(value.slice(2, -2))
  })

  test('is found wherever the pieces of a body end', async () => {
    const hidden = fc.constantFrom(
      value,
      Buffer.from(value).toString('base64'),
      Buffer.from(value).toString('hex'),
    )
    await fc.assert(
      fc.asyncProperty(hidden, fc.array(fc.nat(200), { maxLength: 8 }), async (form, cuts) => {
        const text = `${'x'.repeat(30)}${form}${'y'.repeat(30)}${form}`
        const stream = bodyConcealer([SECRET])
        const pieces: Buffer[] = []
        stream?.on('data', (piece: Buffer) => pieces.push(piece))
        const at = [0, ...cuts.map((cut) => cut % text.length).toSorted((a, b) => a - b), text.length]
        for (const [index, end] of at.slice(1).entries())
          stream?.write(Buffer.from(text.slice(at[index], end)))
        await new Promise<void>((resolve) => stream?.end(() => resolve()))
        const seen = Buffer.concat(pieces).toString()
        expect(seen).toHaveLength(text.length)
        expect(seen).not.toContain(form.slice(2, -2))
      }),
      { numRuns: 100 },
    )
  })
})

describe('after an upgrade', () => {
  test('a value is not repeated, and nothing is held back for long', async () => {
    await using world = await EdgeWorld.open(() => {})
    world.outside.on('upgrade', (request, socket) => {
      socket.write(
        `HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Offered: ${request.headers['sec-websocket-extensions']}\r\n\r\n`,
      )
      socket.write(`you sent ${request.headers['x-key']} and more, ${value.slice(0, 6)}`)
    })
    const socket = await world.connect()
    socket.on('error', () => {})
    socket.write(
      `GET / HTTP/1.1\r\nHost: ${NAME}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Key: ${placeholder}\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n`,
    )
    let received = ''
    for await (const piece of socket) {
      received += piece.toString('latin1')
      if (received.endsWith(value.slice(0, 6))) break
    }
    expect(received).toContain('X-Offered: undefined')
    expect(received).toContain(`you sent ${'*'.repeat(value.length)} and more`)
  })
})

test('a secret that cannot be used is refused, and its placeholder not sent', async () => {
  const seen: string[] = []
  await using world = await EdgeWorld.open(
    (request, response) => {
      seen.push(request.url ?? '')
      response.end('fine')
    },
    { secrets: [{ ...SECRET, value: '', problem: 'The secret "KEY" is too short.' }] },
  )
  const refused = await world.ask({ headers: KEY })
  expect([refused.status, JSON.parse(refused.text).error]).toEqual([
    403,
    { code: 'secret_unusable', message: 'The secret "KEY" is too short.', from: 'dormouse' },
  ])
  const basic = await world.ask({ headers: { host: NAME }, auth: `me:${placeholder}` })
  expect(basic.status).toBe(403)
  expect((await world.ask({ path: '/without', headers: { host: NAME } })).text).toBe('fine')
  expect(seen).toEqual(['/without'])
})
