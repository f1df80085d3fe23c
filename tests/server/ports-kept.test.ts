import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { send } from './ports/harness.ts'
import { ServerProcess } from './server-process.ts'

const program = new URL('ports/kept.py', import.meta.url)

let server: ServerProcess
let id: string
beforeAll(async () => {
  server = await ServerProcess.start()
  id = (await server.ok('/v1/sandboxes', { json: { idleTimeoutMs: 0 } })).id
  const at = `/v1/sandboxes/${id}`
  await server.ok(`${at}/files?path=/root/kept.py`, { method: 'PUT', body: await readFile(program) })
  await server.ok(`${at}/processes`, { json: { args: ['python3', '/root/kept.py'], keepAwake: false } })
  await server.ok(`${at}/ports/9000/wait`, { json: {} })
})
afterAll(async () => {
  await server?.cleanUp()
})

function ask(port: number, { method = 'GET', body }: { method?: string; body?: string } = {}) {
  const headers = { authorization: `Bearer ${server.key}` }
  return send(server, `/v1/sandboxes/${id}/ports/${port}/`, {
    method,
    headers,
    ...(body !== undefined && { body }),
  })
}
const textOf = async (port: number, method?: string) => (await ask(port, method ? { method } : {})).text
const log = async () => (await server.fetch(`/v1/sandboxes/${id}/files?path=/root/ends.log`)).text()

/** Waits for a line of the log that was not there `before`. */
async function newLine(before: string, line: RegExp): Promise<void> {
  for (;;) {
    if (line.test((await log()).slice(before.length))) return
    await sleep(50)
  }
}

test.each([9001, 9006, 9007])(
  'requests to port %i share one connection, which ends in order when it is idle',
  async (port) => {
    const before = await log()
    for (let n = 1; n <= 5; n += 1) expect(await textOf(port)).toMatch(/^connection \d+ request \d+$/)
    await newLine(before, new RegExp(`^${port} eof after [2-5]$`, 'm'))
  },
)

test('requests that must not be repeated get a connection of their own', async () => {
  const { text: first } = await ask(9001, { method: 'POST' })
  const { text: second } = await ask(9001, { method: 'POST' })
  expect([first, second]).toEqual([
    expect.stringMatching(/ request 1$/),
    expect.stringMatching(/ request 1$/),
  ])
  expect(first).not.toBe(second)
})

test('a program that serves one connection at a time answers requests that come together', async () => {
  const answers = await Promise.all(Array.from({ length: 8 }, () => ask(9002)))
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
  expect((await ask(9002, { method: 'DELETE' })).status).toBe(200)
})

test('a request on a connection that the program closes meanwhile is sent again', async () => {
  for (let n = 0; n < 12; n += 1) {
    expect((await ask(9003)).text).toMatch(/ request 1$/)
    // The program closes after 100 ms: some requests meet the connection just then.
    await sleep(94 + n)
  }
})

test('a response head without an end is cut off, and the caller learns why', async () => {
  const before = await log()
  const { status, json } = await ask(9004)
  expect({ status, code: json.error.code }).toEqual({ status: 502, code: 'port_closed' })
  await newLine(before, /^9004 cut off$/m)
})

test('a response that no request asked for reaches no client', async () => {
  for (let n = 0; n < 5; n += 1) expect(await textOf(9005)).toMatch(/^connection \d+ request 1$/)
})

test('a closed port is reported, also after requests that it answered', async () => {
  expect((await ask(9999)).json.error).toMatchObject({ code: 'port_closed', details: { port: 9999 } })
})

test.each(['frozen', 'stored'])(
  'a kept connection ends in order before a standby, and a request wakes the sandbox (%s)',
  async (tier) => {
    const before = await log()
    await textOf(9000)
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier } })
    expect((await server.ok(`/v1/sandboxes/${id}`)).state).toBe('standby')
    expect(await textOf(9000)).toMatch(/^connection \d+ request 1$/)
    expect((await log()).slice(before.length)).toMatch(/^9000 (?:eof|ConnectionResetError) after \d+$/m)
  },
)

test('an idle kept connection does not keep the sandbox awake, and `why` does not name it', async () => {
  await textOf(9000)
  const { work } = await server.ok(`/v1/sandboxes/${id}/why`)
  expect(work.filter(({ kind }: { kind: string }) => kind === 'connection')).toEqual([])
})
