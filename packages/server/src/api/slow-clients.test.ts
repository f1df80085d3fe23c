import { request as httpRequest } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { exitAtOnce, type FakeRun } from './testing/fake-sandboxes.ts'
import { type TestApp, testApp } from './testing/test-app.ts'

let http: TestApp
let port: number
beforeAll(async () => {
  http = await testApp({ clientTimeouts: { headersMs: 300, jsonBodyMs: 300, readerMs: 300 } })
  await http.app.listen({ port: 0, host: '127.0.0.1' })
  port = (http.app.server.address() as AddressInfo).port
})
afterAll(async () => {
  await http[Symbol.asyncDispose]()
})

/** Says this much and no more. */
function stall(text: string): Promise<string> {
  return new Promise((resolve) => {
    let answer = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(text))
    socket.on('data', (data) => {
      answer += data
    })
    socket.on('close', () => resolve(answer))
  })
}

const HEAD = (length: number) =>
  `POST /v1/run HTTP/1.1\r\nHost: a\r\nAuthorization: ${http.as('run').authorization}\r\n` +
  `Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`

test('half a head is answered and closed', async () => {
  expect(await stall('GET /healthz HTTP/1.1\r\nHost: a\r\n')).toMatch(
    /^HTTP\/1.1 408 .*"code":"request_timeout"/s,
  )
})

test('half a body is answered and closed', async () => {
  expect(await stall(`${HEAD(100)}{"code":`)).toMatch(/^HTTP\/1.1 408 .*"code":"request_timeout"/s)
  expect(http.runs.started).toEqual([])
})

test('a body without a valid key is not waited for', async () => {
  const answer = await new Promise<number | undefined>((resolve, reject) => {
    const request = httpRequest(
      {
        port,
        method: 'POST',
        path: '/v1/run',
        headers: { 'content-type': 'application/json', 'content-length': '1000000' },
      },
      (response) => {
        resolve(response.statusCode)
        request.destroy()
      },
    )
    request.on('error', reject)
    request.flushHeaders()
  })
  expect(answer).toBe(401)
})

test('a reader of events that takes nothing is cut off, and the run is left alone', async () => {
  const chunk = 'x'.repeat(1024 ** 2)
  http.runs.script = (run) => {
    for (let count = 0; count < 60; count += 1) run.emit({ type: 'stdout', data: chunk })
  }
  const { json } = await http.send('POST', '/v1/sandboxes', {})
  const closed = vi.fn()
  const request = httpRequest({
    ...{ port, method: 'POST', path: `/v1/sandboxes/${json.id}/run` },
    headers: { ...http.as('run'), 'content-type': 'application/json', accept: 'application/x-ndjson' },
  })
  // The answer is never read.
  request.on('response', (response) => response.on('error', closed))
  request.end('{"code":"1"}')
  await expect.poll(() => http.runs.started).toHaveLength(1)
  const run = http.runs.started[0] as FakeRun
  await expect.poll(() => connections()).toBe(0)
  expect(run.pulled).toBeLessThan(60)
  expect(http.runs.interrupted).toEqual([])
  request.destroy()
})

test('a reader of a large answer that takes nothing is cut off', async () => {
  http.runs.script = exitAtOnce
  // A page of sandboxes with a lot of metadata: more than the buffers of two sockets.
  for (let count = 0; count < 100; count += 1) {
    const metadata = Object.fromEntries(Array.from({ length: 60 }, (_, key) => [`k${key}`, 'x'.repeat(2000)]))
    await http.send('POST', '/v1/sandboxes', { metadata })
  }
  const socket = connect(port, '127.0.0.1')
  socket.pause()
  socket.write(
    `GET /v1/sandboxes HTTP/1.1\r\nHost: a\r\nAuthorization: ${http.as('run').authorization}\r\n\r\n`,
  )
  await expect.poll(() => connections()).toBe(1)
  await expect.poll(() => connections()).toBe(0)
  socket.destroy()
})

function connections(): Promise<number> {
  return new Promise((resolve, reject) =>
    http.app.server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
  )
}
