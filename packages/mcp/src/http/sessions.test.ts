import { Dormouse } from 'dormouse'
import { afterEach, describe, expect, test } from 'vitest'
import { McpSessions, type SessionLimits } from './sessions.ts'

let sessions: McpSessions
afterEach(() => sessions.close())

/** A server that never answers: calls stay in progress until they are cancelled. */
const silent: typeof fetch = (_url, init) =>
  new Promise((_resolve, reject) => {
    init?.signal?.addEventListener('abort', () => reject(init.signal?.reason))
  })

const LIMITS: SessionLimits = { sessions: 4, sessionsOfOneKey: 2, idleMs: 1000 }
const never = new AbortController().signal

function ask(
  message: object | undefined,
  { id, keyId = 'one', method = 'POST', revoked = never }: Asked = {},
): Promise<Response> {
  const headers = {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    ...(id !== undefined && { 'mcp-session-id': id }),
  }
  return sessions.handle({
    request: new Request('http://localhost/mcp', { method, headers }),
    body: message && { jsonrpc: '2.0', id: 1, ...message },
    keyId,
    revoked,
    connect: () => new Dormouse({ url: 'http://127.0.0.1:1', apiKey: 'none', fetch: silent }),
    sandbox: undefined,
  })
}

interface Asked {
  readonly id?: string
  readonly keyId?: string
  readonly method?: string
  readonly revoked?: AbortSignal
}

async function begin(asked: Asked = {}): Promise<string> {
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } }
  const answer = await ask({ method: 'initialize', params }, asked)
  await answer.text()
  return answer.headers.get('mcp-session-id') ?? ''
}

const work = { method: 'tools/call', params: { name: 'run_python', arguments: { code: '1' } } }
const ping = { method: 'ping' }

describe('sessions', () => {
  test('of one key are limited, and an evicted one comes back with its next request', async () => {
    sessions = new McpSessions({ limits: LIMITS })
    const ids = [await begin(), await begin(), await begin()]
    expect(sessions.size).toBe(2)
    for (const id of ids) {
      const answer = await ask(ping, { id })
      expect(answer.status).toBe(200)
      expect(await answer.text()).toContain('"result":{}')
    }
    expect(sessions.size).toBe(2)
  })

  test('of all keys are limited', async () => {
    sessions = new McpSessions({ limits: LIMITS })
    for (const keyId of ['a', 'b', 'c', 'd', 'e', 'f']) await begin({ keyId })
    expect(sessions.size).toBe(4)
  })

  test('with calls in progress are not evicted: a new one is refused', async () => {
    sessions = new McpSessions({ limits: LIMITS })
    const busy = [await begin(), await begin()]
    const calls = await Promise.all(busy.map((id) => ask(work, { id })))
    const refused = await ask({ method: 'initialize', params: HELLO })
    expect(refused.status).toBe(429)
    expect((await ask(undefined, { id: busy[0] as string, method: 'DELETE' })).status).toBe(200)
    expect(await begin()).toMatch(/^mcp-/)
    await calls[0]?.body?.cancel()
    await calls[1]?.body?.cancel()
  })

  test('of a revoked key are evicted', async () => {
    sessions = new McpSessions({ limits: LIMITS })
    const revocation = new AbortController()
    const id = await begin({ revoked: revocation.signal })
    const stream = await ask(undefined, { id, method: 'GET' })
    revocation.abort()
    expect(await stream.text()).toBe('')
    expect(sessions.size).toBe(0)
  })

  test('are shared by two requests that bring back the same one at once', async () => {
    sessions = new McpSessions({ limits: LIMITS })
    const id = `mcp-${'0'.repeat(32)}`
    const answers = await Promise.all([ask(ping, { id }), ask({ ...ping, id: 2 }, { id })])
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    expect(sessions.size).toBe(1)
  })
})

const HELLO = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } }
