import { randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { ERROR_META } from '@dormouse/mcp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { type Answer, McpClient } from './mcp-client.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start({ idleTimeoutMs: 0 })
})
afterAll(async () => {
  await server?.cleanUp()
})

const HELLO = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
}
const ACCEPT = { accept: 'application/json, text/event-stream' }
const unique = () => randomBytes(4).toString('hex')
const say = (json: unknown, headers: Record<string, string> = {}) =>
  server.fetch('/mcp', { json, headers: { ...ACCEPT, ...headers } })

/** Announces a body of this length, and returns the answer that comes before it is sent. */
function statusOfLength(bytes: number): Promise<number | undefined> {
  const headers = { ...ACCEPT, authorization: `Bearer ${server.key}`, 'content-type': 'application/json' }
  return new Promise((resolve, reject) => {
    const asked = request(`${server.url}/mcp`, {
      method: 'POST',
      headers: { ...headers, 'content-length': bytes },
    })
    asked.on('error', reject).on('response', (answer) => {
      resolve(answer.statusCode)
      asked.off('error', reject).on('error', () => {})
      asked.destroy()
    })
    asked.flushHeaders()
  })
}

/** Starts a call that does not end; returns when it runs. */
async function begun(call: (onprogress: () => void) => Promise<Answer>): Promise<{ cut: Promise<Answer> }> {
  return await new Promise((resolve) => {
    const cut = call(() => resolve({ cut }))
    cut.catch(() => {})
  })
}

describe('conversations', () => {
  test('two do not share state', async () => {
    await using one = await McpClient.overHttp(server)
    await using two = await McpClient.overHttp(server)
    await using three = await McpClient.overStdio(server)
    await one.call('run_python', { code: 'secret = 1' })
    for (const other of [two, three]) {
      const { structuredContent } = await other.call('run_python', { code: 'secret' })
      expect(structuredContent.error.name).toBe('NameError')
    }
  })

  test('of the same name share their state, over stdio and HTTP', async () => {
    const name = `project-${unique()}`
    await using one = await McpClient.overStdio(server, name)
    await one.call('run_python', { code: 'shared = [1]' })
    await one.end()
    await using two = await McpClient.overStdio(server, name)
    expect(await two.text('run_python', { code: 'shared.append(2); shared' })).toBe('[1, 2]')
    await using three = await McpClient.overHttp(server, { sandbox: name })
    expect(await three.text('run_python', { code: 'shared' })).toBe('[1, 2]')
    const { expires } = await server.ok(`/v1/sandboxes/${name}`)
    expect(expires).toBeUndefined()
  })

  test('without a name keep their sandbox for a month', async () => {
    await using mcp = await McpClient.overHttp(server)
    await mcp.call('run_python', { code: '1' })
    const { name, expires, metadata } = await server.ok(`/v1/sandboxes/${mcp.sessionId}`)
    expect(name).toBe(mcp.sessionId)
    expect(expires).toEqual({ idleMs: 30 * 24 * 3600 * 1000, action: 'delete' })
    expect(metadata).toEqual({ via: 'mcp' })
  })

  test('continue after a restart of the server, which does not interrupt a run', async () => {
    await using mcp = await McpClient.overHttp(server)
    await mcp.call('run_python', { code: 'x = 1' })
    const code = 'import time\nprint("begun", flush=True)\nfor i in range(40): time.sleep(0.05)\nx = 2'
    const { cut } = await begun((onprogress) =>
      mcp.call('run_python', { code }, { onprogress, timeout: 5_000 }),
    )
    const id = mcp.sessionId
    await server.stop()
    await server.begin()
    await expect(cut).rejects.toThrow()
    await using again = await McpClient.overHttp(server, { sessionId: id })
    expect(await again.text('run_python', { code: 'x' })).toBe('2')
  })

  test('that have ended are refused, and so are unknown ids', async () => {
    await using mcp = await McpClient.overHttp(server)
    const id = mcp.sessionId
    await mcp.end()
    const ping = { jsonrpc: '2.0', id: 2, method: 'ping' }
    expect((await say(ping, { 'mcp-session-id': id })).status).toBe(404)
    expect((await say(ping, { 'mcp-session-id': 'made-up' })).status).toBe(404)
    expect((await say(ping)).status).toBe(400)
  })
})

describe('over stdio', () => {
  test('a wrong key is a tool error with a hint', async () => {
    const other = { url: server.url, key: 'dm_wrong_key' } as ServerProcess
    await using mcp = await McpClient.overStdio(other)
    const refused = await mcp.call('run_python', { code: '1' })
    expect(refused._meta?.[ERROR_META]).toMatchObject({ code: 'unauthorized', hint: expect.any(String) })
  })
})

describe('keys', () => {
  const keyWith = async (...scopes: string[]): Promise<{ id: string; key: string }> =>
    server.ok('/v1/keys', { json: { name: `test-${unique()}`, scopes } })

  test('are required, and must be right', async () => {
    const none = await fetch(`${server.url}/mcp`, { method: 'POST', headers: ACCEPT })
    expect(none.status).toBe(401)
    expect(none.headers.get('www-authenticate')).toBe('Bearer')
    await expect(McpClient.overHttp(server, { key: 'dm_wrong' })).rejects.toThrow()
  })

  test('with the scope read can list but not run', async () => {
    const { key } = await keyWith('read')
    await using mcp = await McpClient.overHttp(server, { key })
    expect((await mcp.client.listTools()).tools.length).toBeGreaterThan(10)
    expect((await mcp.call('list_sandboxes')).structuredContent.sandboxes).toEqual([])
    const refused = await mcp.call('run_python', { code: '1' })
    expect(refused._meta?.[ERROR_META]).toMatchObject({ code: 'scope_missing' })
  })

  test('see only their own sandboxes, also with the session id of another key', async () => {
    await using mine = await McpClient.overHttp(server)
    await mine.call('run_python', { code: 'mine = 1' })
    const { key } = await keyWith('run')
    await using theirs = await McpClient.overHttp(server, { key, sessionId: mine.sessionId })
    const { structuredContent } = await theirs.call('run_python', { code: 'mine' })
    expect(structuredContent.error.name).toBe('NameError')
    const refused = await theirs.call('run_python', { code: '1', sandbox: `left-${unique()}` })
    expect(refused._meta?.[ERROR_META]).toMatchObject({ code: 'not_found' })
  })

  test('end their streams when they are revoked', async () => {
    const { id, key } = await keyWith('read')
    const hello = await server.fetch('/mcp', { key, json: HELLO, headers: ACCEPT })
    const session = { 'mcp-session-id': hello.headers.get('mcp-session-id') ?? '' }
    const stream = await server.fetch('/mcp', { key, headers: { accept: 'text/event-stream', ...session } })
    expect(stream.status).toBe(200)
    await server.fetch(`/v1/keys/${id}`, { method: 'DELETE' })
    expect(await stream.text()).toBe('')
  })
})

describe('requests', () => {
  test.each([
    ['http://evil.example', 403],
    ['null', 403],
    ['http://localhost:6274', 200],
    ['http://127.0.0.1:3000', 200],
  ])('from a page of %s: %i', async (origin, status) => {
    const answer = await say(HELLO, { origin })
    expect(answer.status).toBe(status)
    if (status === 403) expect((await answer.json()).error).toMatchObject({ code: 'permission_denied' })
    else await answer.body?.cancel()
  })

  test('that are too large, not JSON, or not a message are refused', async () => {
    expect(await statusOfLength(17 * 1024 ** 2)).toBe(413)
    const broken = await server.fetch('/mcp', {
      method: 'POST',
      body: '{',
      headers: { ...ACCEPT, 'content-type': 'application/json' },
    })
    expect(broken.status).toBe(400)
    expect((await say({ hello: 'world' })).status).toBe(400)
    expect((await server.fetch('/mcp', { json: HELLO, headers: { accept: 'text/html' } })).status).toBe(406)
    expect((await server.fetch('/mcp', { method: 'PUT' })).status).toBe(405)
    expect((await server.fetch('/mcp?sandbox=no%20name', { json: HELLO, headers: ACCEPT })).status).toBe(400)
  })
})
