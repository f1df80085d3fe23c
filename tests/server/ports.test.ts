import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { highestUntilSteady } from '../highest-until-steady.ts'
import { EchoSocket, send, serveInside } from './ports/harness.ts'
import { ServerProcess } from './server-process.ts'

const MIB = 1024 ** 2

let server: ServerProcess
let id: string
let at: string
beforeAll(async () => {
  server = await ServerProcess.start()
  id = await serveInside(server)
  at = `/v1/sandboxes/${id}/ports/8000`
})
afterAll(async () => {
  await server?.cleanUp()
})

const key = () => ({ authorization: `Bearer ${server.key}` })
const headersOf = (told: { headers: [string, string][] }) =>
  Object.fromEntries(told.headers.map(([name, value]) => [name.toLowerCase(), value]))

describe('HTTP to a port inside', () => {
  test('python -m http.server is reached, by path and by host name', async () => {
    const args = ['python3', '-m', 'http.server', '8080', '--directory', '/root/site']
    await server.ok(`/v1/sandboxes/${id}/files?path=/root/site/page.txt&parents=true`, {
      method: 'PUT',
      body: 'hi',
    })
    await server.ok(`/v1/sandboxes/${id}/processes`, { json: { args } })
    const waited = await server.ok(`/v1/sandboxes/${id}/ports/8080/wait`, { json: { timeoutMs: 20_000 } })
    expect(waited).toMatchObject({ port: 8080, isListening: true, access: 'private' })
    const page = await server.fetch(`/v1/sandboxes/${id}/ports/8080/page.txt`)
    expect({ status: page.status, text: await page.text() }).toEqual({ status: 200, text: 'hi' })
    const host = `8080-${id}.localhost`
    expect(await send(server, '/page.txt', { headers: { ...key(), host } })).toMatchObject({
      status: 200,
      text: 'hi',
    })
    expect(waited.url).toBe(`http://${host}:${new URL(server.url).port}/`)
  })

  test.each(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND'])(
    '%s goes through with path and query as they are',
    async (method) => {
      const { status, json } = await send(server, `${at}/a%2Fb//c?x=%20&y=/`, { method, headers: key() })
      expect({ status, method: json.method, path: json.path }).toEqual({
        status: 200,
        method,
        path: '/a%2Fb//c?x=%20&y=/',
      })
    },
  )

  test('HEAD has headers and no body', async () => {
    const { status, headers, text } = await send(server, `${at}/`, { method: 'HEAD', headers: key() })
    expect({ status, text }).toEqual({ status: 200, text: '' })
    expect(Number(headers['content-length'])).toBeGreaterThan(0)
  })

  test('headers: hop-by-hop ones stay behind, forwarded ones are added, ours never go in', async () => {
    const headers = {
      ...key(),
      connection: 'x-mine',
      'x-mine': 'for one hop',
      'x-other': 'goes through',
      cookie: 'theirs=1; dormouse-preview=token; more=2',
      te: 'trailers',
    }
    const { json } = await send(server, `${at}/h?dormouse-token=secret&kept=1`, { headers })
    const seen = headersOf(json)
    expect(json.path).toBe('/h?kept=1')
    expect(JSON.stringify(json)).not.toMatch(/dm_|secret|dormouse-preview/)
    expect(seen).toMatchObject({
      ...{ host: 'localhost:8000', 'x-other': 'goes through', cookie: 'theirs=1; more=2' },
      ...{ 'x-forwarded-for': '127.0.0.1', 'x-forwarded-proto': 'http', 'x-forwarded-prefix': at },
      'x-forwarded-host': new URL(server.url).host,
    })
    for (const name of ['authorization', 'x-mine', 'te']) expect(seen[name]).toBeUndefined()
  })

  test('by host name the host is what the caller asked for', async () => {
    const host = `8000-${id}.localhost:1234`
    const { json } = await send(server, '/v1/sandboxes', { headers: { ...key(), host } })
    expect(json.path).toBe('/v1/sandboxes')
    expect(headersOf(json)).toMatchObject({ host, 'x-forwarded-host': host })
    expect(headersOf(json)['x-forwarded-prefix']).toBeUndefined()
  })

  test('redirects and cookies from inside stay below the path', async () => {
    const locationOf = async (path: string) =>
      (await send(server, `${at}${path}`, { headers: key() })).headers.location
    expect(await locationOf('/redirect')).toBe(`${at}/there?x=1`)
    expect(await locationOf('/redirect-absolute')).toBe(`${at}/there`)
    expect(await locationOf('/redirect-away')).toBe('https://example.org/')
    const byPath = await send(server, `${at}/cookies`, { headers: key() })
    expect(byPath.headers['set-cookie']).toEqual([`a=1; Path=${at}/x`, `b=2; Path=${at}/`])
    expect(byPath.headers['content-security-policy']).toMatch(/^sandbox (?!.*allow-same-origin)/)
    const host = `8000-${id}.localhost`
    const byHost = await send(server, '/cookies', { headers: { ...key(), host } })
    expect(byHost.headers['set-cookie']).toEqual(['a=1; Path=/x', 'b=2'])
    expect(byHost.headers['content-security-policy']).toBeUndefined()
    expect((await send(server, '/redirect', { headers: { ...key(), host } })).headers.location).toBe(
      '/there?x=1',
    )
  })

  test('events arrive one by one, as they are written', async () => {
    const response = await server.fetch(`${at}/events`)
    expect(response.headers.get('content-type')).toBe('text/event-stream')
    const times: number[] = []
    let text = ''
    for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) {
      times.push(performance.now())
      text += Buffer.from(part).toString()
    }
    expect(text).toBe([0, 1, 2, 3, 4].map((n) => `data: ${n}\n\n`).join(''))
    expect((times.at(-1) ?? 0) - (times[0] ?? 0)).toBeGreaterThan(500)
  })

  test('an upload of 32 MiB arrives whole, with a length and without', async () => {
    const body = Buffer.alloc(32 * MIB, 'some bytes; ')
    const sha256 = createHash('sha256').update(body).digest('hex')
    expect(await server.ok(`${at}/up`, { method: 'PUT', body })).toMatchObject({ bytes: body.length, sha256 })
    const pieces = async function* () {
      for (let n = 0; n < 32; n += 1) yield body.subarray(n * MIB, (n + 1) * MIB)
    }
    const streamed = { method: 'DELETE', body: pieces(), duplex: 'half' } as unknown as RequestInit
    expect(await server.ok(`${at}/up`, streamed)).toMatchObject({ bytes: body.length, sha256 })
  })

  test('a refusal from inside in the middle of an upload is seen', async () => {
    const body = Buffer.alloc(64 * MIB)
    expect(await send(server, `${at}/refuse`, { method: 'POST', headers: key(), body })).toMatchObject({
      status: 413,
      text: 'too much',
    })
  })

  test('a body without a right to send it is not passed on, and its sender sees why', async () => {
    const body = Buffer.alloc(16 * MIB)
    expect(await send(server, `${at}/up`, { method: 'PUT', body })).toMatchObject({ status: 401 })
  })

  test('200 MB are downloaded with flat memory, also by a reader that pauses', async () => {
    const resident = async () =>
      Number(/^VmRSS:\s+(\d+) kB$/m.exec(await readFile(`/proc/${server.pid}/status`, 'latin1'))?.[1]) * 1024
    await (await server.fetch(`${at}/big/10`)).arrayBuffer()
    const before = await resident()
    const response = await server.fetch(`${at}/big/200`)
    const paused = (await highestUntilSteady(resident)) - before
    let bytes = 0
    for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) bytes += part.byteLength
    expect(bytes).toBe(200 * MIB)
    expect(paused).toBeLessThan(120 * MIB)
    expect((await resident()) - before).toBeLessThan(120 * MIB)
  })

  test('a closed port is a clear 502, and so is one that hangs up; half an answer is no answer', async () => {
    const closed = await server.call(`/v1/sandboxes/${id}/ports/9999/`)
    expect(closed).toMatchObject({
      status: 502,
      body: { error: { code: 'port_closed', details: { port: 9999 } } },
    })
    expect(closed.body.error.message).toContain('9999')
    expect(await server.call(`${at}/hang-up`)).toMatchObject({
      status: 502,
      body: { error: { code: 'port_closed' } },
    })
    await expect(send(server, `${at}/cut`, { headers: key() })).rejects.toThrow()
  })

  test('a caller that disconnects ends the request inside, and the work with it', async () => {
    const leaving = new AbortController()
    const response = await server.fetch(`${at}/big/1000`, { signal: leaving.signal })
    expect(response.status).toBe(200)
    // A server that another test left running is work, too.
    const work = async () =>
      (await server.ok(`/v1/sandboxes/${id}/why`)).work.filter(
        ({ kind }: { kind: string }) => kind === 'connection',
      )
    expect(await work()).toContainEqual(
      expect.objectContaining({ kind: 'connection', what: 'a connection to port 8000' }),
    )
    leaving.abort()
    await expect.poll(work).toEqual([])
  })
})

describe('WebSockets to a port inside', () => {
  test('messages of any size go both ways', async () => {
    const socket = new EchoSocket(`${server.url}${at}/ws`, { headers: key() })
    await socket.opened
    expect(await socket.ask('hello')).toBe('hello')
    const large = 'x'.repeat(3_000_000)
    expect((await socket.ask(large)).length).toBe(large.length)
    socket.raw.close(4321)
    expect(await socket.ended).toBe(4321)
  })

  test('a key among the protocols grants access and is not passed inside', async () => {
    const protocols = ['dormouse.v1', `dormouse.bearer.${server.key}`]
    const socket = new EchoSocket(`${server.url}${at}/ws/headers`, { protocols })
    // Nothing of what was offered was chosen, which this client minds: the server inside has answered all the same.
    expect(await socket.ended).not.toBe(401)
    const named = new EchoSocket(`${server.url}${at}/ws/headers`, { headers: { ...key(), 'x-a': 'b' } })
    const seen = await named.message(0)
    expect(seen).toContain('"x-a"')
    expect(seen).not.toContain('dm_')
    named.raw.close()
  })

  test('without a key it is refused, and what is no WebSocket inside answers as it does', async () => {
    expect(await new EchoSocket(`${server.url}${at}/ws`).ended).toBe(401)
    expect(await new EchoSocket(`${server.url}${at}/plain`, { headers: key() }).ended).toBe(200)
    const closed = `${server.url}/v1/sandboxes/${id}/ports/9999/ws`
    expect(await new EchoSocket(closed, { headers: key() }).ended).toBe(502)
  })
})

describe('TCP over a WebSocket', () => {
  const dial = (port: number) => {
    const socket = new EchoSocket(`${server.url}/v1/sandboxes/${id}/ports/${port}/tcp`, { headers: key() })
    return socket
  }

  test('bytes both ways, each half ends by itself', async () => {
    const socket = dial(8000)
    expect(JSON.parse(await socket.message(0))).toEqual({ type: 'start' })
    socket.raw.send(Buffer.from('GET /x HTTP/1.0\r\n\r\n'))
    socket.raw.send(JSON.stringify({ type: 'end' }))
    expect(await socket.ended).toBe(1000)
    expect(socket.messages.slice(1, -1).join('')).toMatch(/^HTTP\/1.1 200 OK\r\n[\s\S]*"path": "\/x"/)
    expect(JSON.parse(socket.messages.at(-1) ?? '')).toEqual({ type: 'end' })
  })

  test('a closed port is reported, and a reader that pauses costs no memory', async () => {
    const closed = dial(9999)
    expect(JSON.parse(await closed.message(0))).toMatchObject({
      type: 'error',
      error: { code: 'port_closed' },
    })
    expect(await closed.ended).toBe(1008)
    const socket = dial(8000)
    await socket.message(0)
    socket.raw.send(Buffer.from('GET /big/64 HTTP/1.0\r\n\r\n'))
    socket.raw.pause()
    await sleep(500)
    let bytes = 0
    socket.raw.on('message', (data: Buffer, isBinary: boolean) => {
      if (isBinary) bytes += data.length
    })
    socket.raw.resume()
    await expect.poll(() => bytes, { timeout: 20_000 }).toBeGreaterThan(64 * MIB)
    socket.raw.close()
  })
})
