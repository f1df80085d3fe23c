import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { afterEach, expect, it } from 'vitest'
import { HostConnections } from './host-connections.ts'

const closing: (() => void)[] = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
})

async function listen(
  onRequest: RequestListener,
): Promise<{ server: Server; url: string; sockets: Set<Socket> }> {
  const server = createServer(onRequest).listen(0, '127.0.0.1')
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket))
  await once(server, 'listening')
  closing.push(() => server.close().closeAllConnections())
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sockets }
}

/** A host that passes everything on to another one. */
async function passTo(onRequest: RequestListener) {
  const owner = await listen(onRequest)
  const connections = new HostConnections({ hostId: 'one', isAlive: () => true, trust: undefined })
  closing.push(() => connections.close())
  const { url } = await listen((request, response) =>
    connections.request({ id: 'two', address: owner.url }, request, response, (error) => {
      response.writeHead(503).end((error as { code: string }).code)
    }),
  )
  return { owner, url }
}

const json = (body: string) => ({ method: 'POST', headers: { 'content-type': 'application/json' }, body })

it('passes short requests and their answers on over one connection, and says where the sandbox is', async () => {
  const seen: string[] = []
  const { owner, url } = await passTo(async (request, response) => {
    const body = (await buffer(request)).toString()
    seen.push(`${request.method} ${request.url} ${request.headers['dormouse-hop']} ${body}`)
    response.writeHead(201, { 'x-own': 'yes' }).end(`got ${body}`)
  })
  for (const init of [{}, json('{"a":1}')]) {
    const answer = await fetch(`${url}/v1/x?y=1`, init)
    expect([answer.status, answer.headers.get('x-own'), answer.headers.get('dormouse-host')]).toEqual([
      ...[201, 'yes', owner.url],
    ])
    expect(await answer.text()).toBe('body' in init ? 'got {"a":1}' : 'got ')
  }
  const head = await fetch(`${url}/v1/x`, { method: 'HEAD' })
  expect([head.status, await head.text()]).toEqual([201, ''])
  expect(seen).toEqual(['GET /v1/x?y=1 one ', 'POST /v1/x?y=1 one {"a":1}', 'HEAD /v1/x one '])
  expect(owner.sockets.size).toBe(1)
})

it('streams an answer whose end is far away, and notices when its client has gone', async () => {
  let left = () => {}
  const isLeft = new Promise<void>((resolve) => {
    left = resolve
  })
  const { url } = await passTo((_request, response) => {
    response.on('close', left)
    response.writeHead(200).write('first')
  })
  const stop = new AbortController()
  const answer = await fetch(url, { signal: stop.signal })
  const { value } = (await answer.body?.getReader().read()) ?? {}
  expect(Buffer.from(value ?? []).toString()).toBe('first')
  stop.abort()
  await isLeft
})

it('passes large answers on whole, also to a client that reads late', async () => {
  const whole = Buffer.alloc(8 << 20, 'abcdefg')
  const { url } = await passTo((_request, response) => response.end(whole))
  const answer = await fetch(url)
  await new Promise((resolve) => setTimeout(resolve, 50))
  expect(Buffer.from(await answer.arrayBuffer()).equals(whole)).toBe(true)
})

it('repeats a GET that met a closed connection, and no POST', async () => {
  let calls = 0
  const { owner, url } = await passTo((request, response) => {
    calls += 1
    // As a host that stops: the connection ends when the request is on its way.
    if (calls === 2 || calls === 4) request.socket.destroy()
    else response.end('well')
  })
  expect(await (await fetch(url)).text()).toBe('well')
  expect(await (await fetch(url)).text()).toBe('well')
  expect(calls).toBe(3)
  const refused = await fetch(url, json('{}'))
  expect([refused.status, await refused.text()]).toEqual([503, 'host_unavailable'])
  expect(calls).toBe(4)
  expect(owner.sockets.size).toBeGreaterThan(1)
})

it('says that a host is unavailable whose answer breaks off, and ends what has begun', async () => {
  const { url } = await passTo((request, response) => {
    if (request.url === '/head') response.writeHead(200, { 'content-length': '10' }).write('half')
    setTimeout(() => request.socket.destroy(), 20)
  })
  expect((await fetch(url)).status).toBe(503)
  await expect(fetch(`${url}/head`).then((answer) => answer.text())).rejects.toThrow()
})
