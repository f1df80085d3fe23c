import { createHash, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { send } from './ports/harness.ts'
import { ServerProcess } from './server-process.ts'

const program = new URL('ports/waiting.py', import.meta.url)
const BODY = randomBytes(2 * 1024 ** 2)
const SHA256 = createHash('sha256').update(BODY).digest('hex')
const EMPTY = createHash('sha256').digest('hex')

/** Accepts the next connection when it has answered the one before. */
const ONE_AT_A_TIME = `
import json, os, time
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
  def do_GET(self):
    with open("/root/asked.new", "w") as file:
      file.write(json.dumps({self.path: 1}))
    os.replace("/root/asked.new", "/root/asked")
    while not os.path.exists("/root/go"):
      time.sleep(0.02)
    self.send_response(200)
    self.end_headers()
  do_POST = do_GET
HTTPServer(("127.0.0.1", 8001), Handler).serve_forever()`

let server: ServerProcess
let at: string
beforeAll(async () => {
  server = await ServerProcess.start()
})
beforeEach(async () => {
  await server.clear()
  const { id } = await server.ok('/v1/sandboxes', { json: { idleTimeoutMs: 0 } })
  at = `/v1/sandboxes/${id}`
  await server.ok(`${at}/files?path=/root/waiting.py`, { method: 'PUT', body: await readFile(program) })
  await server.ok(`${at}/processes`, {
    json: { args: ['python3', '/root/waiting.py', '8000'], keepAwake: false },
  })
  await server.ok(`${at}/ports/8000/wait`, { json: {} })
})
afterAll(() => server?.cleanUp())

const headers = () => ({ authorization: `Bearer ${server.key}` })
const ask = (method: string, path: string, body?: Buffer) =>
  send(server, `${at}/ports/8000${path}`, { method, headers: headers(), body })

/** Sends the first half of the body at once. */
function upload(path: string) {
  const { hostname, port } = new URL(server.url)
  const to = { hostname, port, path: `${at}/ports/8000${path}`, method: 'POST' }
  const sent = httpRequest({ ...to, headers: { ...headers(), 'content-length': BODY.length } })
  const answered = new Promise<unknown>((resolve, reject) => {
    sent.on('error', reject)
    sent.on('response', async (response) =>
      resolve({ status: response.statusCode, json: JSON.parse((await response.toArray()).join('')) }),
    )
  })
  const half = BODY.length / 2
  sent.write(BODY.subarray(0, half))
  return { answered, finish: () => sent.end(BODY.subarray(half)) }
}

/** Resolves when the program has received the beginning of these requests. */
async function received(...paths: readonly string[]): Promise<void> {
  for (;;) {
    const { status, body } = await server.call(`${at}/files?path=/root/asked`)
    if (status === 200 && paths.every((path) => path in (body ?? {}))) return
    await sleep(50)
  }
}

const answerAll = () => server.ok(`${at}/files?path=/root/go`, { method: 'PUT', body: '' })

async function checkpointed(times: number): Promise<void> {
  const taken = async () =>
    (await server.ok(`${at}/ledger?limit=1000`)).items.filter(
      ({ cause }: { cause: string }) => cause === 'checkpoint',
    ).length
  while ((await taken()) < times) await sleep(50)
}

const once = (sha256: string) => ({ status: 200, json: { asked: 1, sha256 } })

test('requests that wait for their answer outlive checkpoints, and reach the program once', async () => {
  const half = upload('/half')
  const whole = [ask('POST', '/post', BODY), ask('GET', '/get'), ask('GET', '/get-2')]
  await received('/half', '/post', '/get', '/get-2')
  await server.ok(at, { method: 'PATCH', json: { checkpointEveryMs: 1000 } })
  await checkpointed(2)
  half.finish()
  await checkpointed(3)
  await answerAll()
  expect(await half.answered).toMatchObject(once(SHA256))
  expect(await Promise.all(whole)).toMatchObject([once(SHA256), once(EMPTY), once(EMPTY)])
}, 60_000)

test('requests that wait for their answer outlive a snapshot and a fork of their sandbox', async () => {
  const asked = [ask('POST', '/post', BODY), ask('GET', '/get')]
  await received('/post', '/get')
  await server.ok(`${at}/snapshots`, { json: {} })
  await server.ok(`${at}/fork`, { json: { count: 1 } })
  await answerAll()
  expect(await Promise.all(asked)).toMatchObject([once(SHA256), once(EMPTY)])
}, 60_000)

test('requests that wait for their answer when the sandbox is put to sleep end, and the client learns why', async () => {
  const asked = [ask('POST', '/post', BODY), ask('GET', '/get')]
  await received('/post', '/get')
  await server.ok(`${at}/standby`, { json: { tier: 'stored' } })
  for (const { status, json } of await Promise.all(asked)) {
    expect(status).toBe(502)
    expect(json.error).toMatchObject({
      code: 'agent_unreachable',
      message: expect.stringContaining('was saved before the program on port 8000 answered'),
      hint: expect.stringContaining('may have received the request'),
    })
  }
  expect((await server.ok(at)).state).toBe('standby')
}, 60_000)

test('a request that the program has not accepted yet refuses a snapshot, which harms no request', async () => {
  await server.ok(`${at}/files?path=/root/one.py`, { method: 'PUT', body: ONE_AT_A_TIME })
  await server.ok(`${at}/processes`, { json: { args: ['python3', '/root/one.py'], keepAwake: false } })
  await server.ok(`${at}/ports/8001/wait`, { json: {} })
  const one = (method: string, path: string) =>
    send(server, `${at}/ports/8001${path}`, { method, headers: headers() })
  const first = one('POST', '/first')
  await received('/first')
  const others = [one('POST', '/second'), one('GET', '/second')]
  // CRIU refuses while they are in the queue of the socket that listens.
  await expect
    .poll(async () => (await server.call(`${at}/snapshots`, { json: {} })).body.error, { timeout: 30_000 })
    .toMatchObject({ code: 'snapshot_refused', message: expect.stringContaining('In-flight connection') })
  await answerAll()
  for (const { status } of await Promise.all([first, ...others])) expect(status).toBe(200)
}, 60_000)
