import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { PlainConnections } from './plain-connections.ts'
import type { PlainRequest } from './plain-request.ts'
import { PlainResponse } from './plain-response.ts'

const HEADERS_MS = 300

let server: Server
let plain: PlainConnections
/** Called before a plain request is answered. */
let before: (request: PlainRequest) => Promise<void>
let left: string[]
let client: Socket
let received: string

beforeEach(async () => {
  before = async () => {}
  left = []
  received = ''
  server = createServer(
    { headersTimeout: HEADERS_MS, connectionsCheckingInterval: 50 },
    (request, response) =>
      request.resume().once('end', () => response.end(`node ${request.method} ${request.url};`)),
  )
  plain = new PlainConnections({
    server,
    headersMs: HEADERS_MS,
    find: (request) =>
      request.url.startsWith('/plain') ? (socket, onOver) => answer(request, socket, onOver) : undefined,
  })
  plain.listen('connection')
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  client.setNoDelay(true).on('data', (data) => {
    received += data
  })
})
afterEach(async () => {
  client.destroy()
  plain.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

function answer(request: PlainRequest, socket: Socket, onOver: () => void) {
  const response = new PlainResponse(socket, { request, onOver })
  void before(request).then(() => {
    if (socket.destroyed) return
    response.writeHead(200, 'OK', ['x-path', request.url])
    response.end(`plain ${request.url};`, 'latin1')
  })
  return { leave: () => left.push(request.url) }
}

const head = (path: string, more = '', method = 'GET') =>
  `${method} ${path} HTTP/1.1\r\nHost: x\r\n${more}\r\n`

async function until(text: string): Promise<void> {
  while (!received.includes(text)) await sleep(5)
}

test('answers plain requests one after the other', async () => {
  client.write(head('/plain/1'))
  await until('plain /plain/1;')
  client.write(head('/plain/2'))
  await until('plain /plain/2;')
  expect(received.match(/HTTP\/1\.1 200 OK\r\n/g)).toHaveLength(2)
})

test('hands a connection to Node with the first other request, also after plain ones', async () => {
  client.write(head('/plain/1'))
  await until('plain /plain/1;')
  client.write(head('/other'))
  await until('node GET /other;')
  client.write(head('/plain/2'))
  await until('node GET /plain/2;')
})

test('Node gets all bytes of a request whose head comes in pieces', async () => {
  for (const piece of ['G', 'ET /plain HTTP/1.1\r\nHo', 'st: x\r\n\r', '\n']) {
    client.write(piece)
    await sleep(20)
  }
  await until('node GET /plain;')
})

test('Node answers requests that come in one piece, in their order', async () => {
  client.write(
    `${head('/plain/1') + head('/plain/2', 'Content-Length: 3\r\n', 'POST')}abc${head('/plain/3')}`,
  )
  await until('node GET /plain/3;')
  expect(received.match(/(?:node|plain) \w+ [^;]+;/g)).toEqual([
    'node GET /plain/1;',
    'node POST /plain/2;',
    'node GET /plain/3;',
  ])
})

test('a request that comes before the last response is complete waits for it', async () => {
  let proceed = () => {}
  const held = new Promise<void>((resolve) => {
    proceed = resolve
  })
  before = ({ url }) => (url === '/plain/1' ? held : Promise.resolve())
  client.write(head('/plain/1'))
  await sleep(20)
  client.write(head('/plain/2'))
  await sleep(20)
  client.write(`${head('/plain/3', 'Content-Length: 1\r\n', 'POST')}a`)
  await sleep(20)
  expect(received).toBe('')
  proceed()
  await until('node POST /plain/3;')
  expect(received.match(/(?:node|plain) [^;]+;/g)).toEqual([
    'plain /plain/1;',
    'plain /plain/2;',
    'node POST /plain/3;',
  ])
})

test('says when a client goes before its response', async () => {
  before = () => sleep(100)
  client.write(head('/plain'))
  await sleep(20)
  client.destroy()
  while (left.length === 0) await sleep(5)
  expect(left).toEqual(['/plain'])
})

test('a client that sends nothing is answered and disconnected', async () => {
  server.on('clientError', ({ code }: NodeJS.ErrnoException, socket) => socket.end(`408 ${code}`))
  await once(client, 'end')
  expect(received).toBe('408 ERR_HTTP_REQUEST_TIMEOUT')
})

test('the connection ends after the response when the client wants that', async () => {
  client.write(head('/plain', 'Connection: close\r\n'))
  await once(client, 'end')
  expect(received).toMatch(/\r\nconnection: close\r\n/)
  expect(received).toContain('plain /plain;')
})

test('the response to HEAD has no body', async () => {
  client.write(head('/plain/1', '', 'HEAD'))
  await until('\r\n\r\n')
  client.write(head('/plain/2'))
  await until('plain /plain/2;')
  expect(received).not.toContain('plain /plain/1;')
})
