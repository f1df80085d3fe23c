import { request as httpRequest } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError } from '@dormouse/contracts'
import { errorSchema } from '@dormouse/contracts/http'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type TestApp, testApp } from './testing/test-app.ts'

let http: TestApp
beforeAll(async () => {
  http = await testApp({ hostPaths: ['/var/lib/dormouse'] })
  await http.app.listen({ port: 0, host: '127.0.0.1' })
})
beforeEach(() => http.reset())
afterAll(async () => {
  await http[Symbol.asyncDispose]()
})

const FREE = 'sb-2222222222222222'

describe('keys and scopes', () => {
  test('a request without a key, with a wrong one and with another scheme is refused before its body is read', async () => {
    for (const authorization of ['', 'Bearer nonsense', `Basic ${btoa('a:b')}`]) {
      const answer = await http.send('POST', '/v1/sandboxes', 'not json', { authorization })
      expect([answer.status, answer.json.error.code]).toEqual([401, 'unauthorized'])
      expect(answer.headers['www-authenticate']).toBe('Bearer')
    }
  })

  test('each scope includes the ones below it and nothing above', async () => {
    const status = async (scope: 'read' | 'run' | 'admin', method: string, url: string, body?: unknown) =>
      (await http.send(method, url, body, http.as(scope))).status
    expect(await status('read', 'GET', '/v1/sandboxes')).toBe(200)
    expect(await status('read', 'POST', '/v1/sandboxes', {})).toBe(403)
    expect(await status('run', 'POST', '/v1/sandboxes', {})).toBe(201)
    expect(await status('run', 'GET', '/v1/keys')).toBe(403)
    expect(await status('admin', 'GET', '/v1/keys')).toBe(200)
    expect(await status('admin', 'POST', '/v1/sandboxes', {})).toBe(201)
    expect(await status('read', 'GET', '/metrics')).toBe(200)
    expect(http.sandboxes.held.size).toBe(2)
  })

  test('health and the document are open, metrics are not', async () => {
    const none = { authorization: '' }
    expect((await http.send('GET', '/healthz', undefined, none)).json).toEqual({
      status: 'ok',
      version: '1.2.3',
    })
    expect((await http.send('HEAD', '/healthz', undefined, none)).status).toBe(200)
    expect((await http.send('GET', '/openapi.json', undefined, none)).json.openapi).toBe('3.1.0')
    expect((await http.send('GET', '/metrics', undefined, none)).status).toBe(401)
    http.health = { status: 'stopping', version: '1.2.3' }
    expect((await http.send('GET', '/healthz', undefined, none)).status).toBe(503)
  })

  test('a key over its rate learns when to retry', async () => {
    const { key } = http.access.create({
      name: 'slow',
      scopes: ['read'],
      rateLimit: { perSecond: 0.5, burst: 1 },
    })
    const headers = { authorization: `Bearer ${key}` }
    expect((await http.send('GET', '/v1/sandboxes', undefined, headers)).status).toBe(200)
    const refused = await http.send('GET', '/v1/sandboxes', undefined, headers)
    expect([refused.status, refused.json.error.code]).toEqual([429, 'rate_limited'])
    expect(Number(refused.headers['retry-after'])).toBeGreaterThanOrEqual(1)
  })

  test('another tenant’s sandbox is not found, in the same words as one that does not exist', async () => {
    const { json: sandbox } = await http.send('POST', '/v1/sandboxes', {})
    const other = http.as('run', 'two')
    const answer = await http.send('GET', `/v1/sandboxes/${sandbox.id}`, undefined, other)
    expect(answer.json.error).toMatchObject({
      code: 'not_found',
      message: `there is no sandbox "${sandbox.id}"`,
    })
    expect((await http.send('GET', '/v1/sandboxes', undefined, other)).json.items).toEqual([])
  })
})

describe('bad input', () => {
  const refused: [string, string, string, unknown, string, RegExp][] = [
    ['an unknown field', 'POST', '/v1/sandboxes', { nam: 'a' }, 'invalid_argument', /^body: nam: /],
    ['a wrong type', 'POST', '/v1/sandboxes', { name: 7 }, 'invalid_argument', /^body: name: .*saw 7/],
    ['a name with a slash', 'POST', '/v1/sandboxes', { name: 'a/b' }, 'invalid_argument', /^body: name: /],
    ['a name like an id', 'POST', '/v1/sandboxes', { name: FREE }, 'invalid_argument', /not look like an id/],
    [
      'getOrCreate without a name',
      'POST',
      '/v1/sandboxes',
      { getOrCreate: true },
      'invalid_argument',
      /^body: name: /,
    ],
    [
      'a negative number',
      'POST',
      '/v1/sandboxes',
      { idleTimeoutMs: -1 },
      'invalid_argument',
      /idleTimeoutMs/,
    ],
    ['a huge number', 'POST', '/v1/sandboxes', { idleTimeoutMs: 1e300 }, 'invalid_argument', /idleTimeoutMs/],
    [
      'too little memory',
      'POST',
      '/v1/sandboxes',
      { limits: { memoryBytes: 1 } },
      'invalid_argument',
      /limits.memoryBytes/,
    ],
    [
      'an expiry without a time',
      'POST',
      '/v1/sandboxes',
      { expires: { action: 'delete' } },
      'invalid_argument',
      /expires/,
    ],
    [
      'NUL in the environment',
      'POST',
      '/v1/sandboxes',
      { env: { A: 'a\0b' } },
      'invalid_argument',
      /env.A: .*NUL/,
    ],
    [
      'a lone surrogate',
      'POST',
      '/v1/sandboxes',
      '{"metadata":{"a":"\\ud800"}}',
      'invalid_argument',
      /metadata.a: .*Unicode/,
    ],
    [
      'a mount path with ..',
      'POST',
      '/v1/sandboxes',
      { volumes: [{ volume: 'v', path: '/a/../b' }] },
      'invalid_argument',
      /volumes.0.path/,
    ],
    ['__proto__', 'POST', '/v1/sandboxes', '{"__proto__":{"a":1}}', 'invalid_argument', /__proto__/],
    ['an array', 'POST', '/v1/sandboxes', [], 'invalid_argument', /^body: /],
    ['half a JSON', 'POST', '/v1/sandboxes', '{"na', 'invalid_argument', /^body: is not valid JSON/],
    ['no code', 'POST', '/v1/run', {}, 'invalid_argument', /^body: code: .*saw nothing/],
    ['an unknown query parameter', 'GET', '/v1/sandboxes?x=1', undefined, 'invalid_argument', /^query: x: /],
    ['a query where there is none', 'POST', '/v1/run?x=1', { code: '1' }, 'invalid_argument', /^query: x: /],
    ['a limit of 0', 'GET', '/v1/sandboxes?limit=0', undefined, 'invalid_argument', /^query: limit: /],
    ['a limit of 1001', 'GET', '/v1/sandboxes?limit=1001', undefined, 'invalid_argument', /^query: limit: /],
    [
      'a limit that is no number',
      'GET',
      '/v1/sandboxes?limit=1e2',
      undefined,
      'invalid_argument',
      /whole number/,
    ],
    [
      'a parameter twice',
      'GET',
      '/v1/sandboxes?limit=1&limit=2',
      undefined,
      'invalid_argument',
      /^query: limit: /,
    ],
    [
      'a cursor with other characters',
      'GET',
      '/v1/sandboxes?cursor=%27',
      undefined,
      'invalid_argument',
      /cursor/,
    ],
    ['NUL in an id', 'GET', '/v1/sandboxes/a%00b', undefined, 'invalid_argument', /^path: id: /],
    ['.. as an id', 'GET', '/v1/sandboxes/%2e%2e%2fetc', undefined, 'invalid_argument', /^path: id: /],
    [
      'bytes that are no UTF-8 in the path',
      'GET',
      '/v1/sandboxes/%ff',
      undefined,
      'invalid_argument',
      /^path/,
    ],
    [
      'a snapshot id of another kind',
      'GET',
      `/v1/snapshots/${FREE}`,
      undefined,
      'invalid_argument',
      /^path: id: /,
    ],
    ['an unknown sandbox', 'GET', `/v1/sandboxes/${FREE}`, undefined, 'not_found', /no sandbox/],
    ['an unknown template', 'GET', '/v1/templates/none', undefined, 'template_not_found', /none/],
    [
      'a template of two kinds',
      'POST',
      '/v1/templates',
      { name: 'a', snapshotId: 'sn-2222222222222222', pip: ['x'] },
      'invalid_argument',
      /snapshotId/,
    ],
    [
      'an option instead of a package',
      'POST',
      '/v1/templates',
      { name: 'a', pip: ['--index-url=x'] },
      'invalid_argument',
      /pip.0/,
    ],
    [
      'to before from',
      'GET',
      '/v1/usage?from=2030-01-02T00:00:00Z&to=2030-01-01T00:00:00Z',
      undefined,
      'invalid_argument',
      /^query: to: /,
    ],
    ['an unknown route', 'GET', '/v1/nothing', undefined, 'not_found', /no such route/],
    ['an unknown method', 'PUT', '/v1/sandboxes', {}, 'method_not_allowed', /PUT/],
    [
      'an Accept that nothing fits',
      'POST',
      '/v1/run',
      { code: '1' },
      'not_acceptable',
      /application\/x-ndjson/,
    ],
  ]

  test.each(refused)(
    '%s is refused with a code, a hint and a place to read on',
    async (_what, method, url, body, code, message) => {
      const accept = code === 'not_acceptable' ? { accept: 'image/png' } : {}
      const answer = await http.send(method, url, body, accept)
      expect(answer.json.error).toMatchObject({ code, message: expect.stringMatching(message) })
      errorSchema.parse(answer.json)
      expect(answer.status).toBe(new DormouseError(answer.json.error.code, '').status)
      expect(answer.headers['x-request-id']).toBe(answer.json.error.requestId)
      expect(http.sandboxes.held.size).toBe(0)
      expect(http.runs.started).toEqual([])
    },
  )

  test('another content type, none at all and bytes that are no UTF-8 are refused', async () => {
    const send = async (headers: Record<string, string>, payload: string | Buffer) =>
      (
        await http.app.inject({
          method: 'POST',
          url: '/v1/sandboxes',
          headers: { ...http.as('run'), ...headers },
          payload,
        })
      ).json().error.code
    expect(await send({ 'content-type': 'text/plain' }, '{}')).toBe('unsupported_media_type')
    expect(await send({ 'content-type': 'nonsense' }, '{}')).toBe('unsupported_media_type')
    expect(await send({ 'content-type': 'application/json' }, Buffer.from('{"name":"\xff"}', 'latin1'))).toBe(
      'invalid_argument',
    )
  })

  test('a body over the limit is refused, also when it does not say its size; code may be larger', async () => {
    const large = JSON.stringify({ metadata: { a: 'x'.repeat(2 * 1024 ** 2) } })
    expect((await http.send('POST', '/v1/sandboxes', large)).json.error.code).toBe('too_large')
    const chunked = await new Promise<number | undefined>((resolve, reject) => {
      const request = httpRequest(
        {
          port: port(),
          path: '/v1/sandboxes',
          method: 'POST',
          headers: { ...http.as('run'), 'content-type': 'application/json' },
        },
        (answer) => resolve(answer.statusCode),
      )
      request.on('error', reject)
      request.write(large.slice(0, 700_000))
      request.end(large.slice(700_000))
    })
    expect(chunked).toBe(413)
    const code = `x = "${'y'.repeat(3 * 1024 ** 2)}"`
    expect((await http.send('POST', '/v1/run', { code })).status).toBe(200)
    expect(
      (await http.send('POST', '/v1/run', { code: 'z'.repeat(8 * 1024 ** 2 + 1) })).json.error.code,
    ).toBe('invalid_argument')
  })

  test('a client that still sends too much can finish, and sees the answer', async () => {
    const { authorization } = http.as('run')
    const socket = connect(port(), '127.0.0.1')
    const size = 24 * 1024 ** 2
    socket.write(
      `POST /v1/run HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\nContent-Type: application/json\r\nContent-Length: ${size}\r\n\r\n`,
    )
    // A client that sends more after the server has closed gets a reset, and loses the answer with it.
    await sleep(300)
    expect(socket.bytesRead).toBe(0)
    socket.end(Buffer.alloc(size, 'x'))
    const answer = await text(socket)
    expect(answer).toMatch(/^HTTP\/1\.1 413 /)
    expect(answer).toContain('"code":"too_large"')
  })

  test('an empty body is the same as none', async () => {
    expect((await http.send('POST', '/v1/sandboxes', '')).status).toBe(201)
    expect((await http.send('POST', '/v1/sandboxes')).status).toBe(201)
    expect((await http.send('POST', '/v1/run', '')).json.error.code).toBe('invalid_argument')
  })

  test('bytes that are not HTTP, and headers that are too large, get an answer of the same shape', async () => {
    const say = (text: string) =>
      new Promise<string>((resolve) => {
        let answer = ''
        const socket = connect(port(), '127.0.0.1', () => socket.write(text))
        socket.on('data', (data) => (answer += data)).on('close', () => resolve(answer))
      })
    expect(await say('nonsense\r\n\r\n')).toMatch(/^HTTP\/1.1 400 .*"code":"invalid_argument"/s)
    expect(await say(`GET / HTTP/1.1\r\nHost: a\r\nX: ${'y'.repeat(20_000)}\r\n\r\n`)).toMatch(
      /^HTTP\/1.1 431 .*"code":"headers_too_large"/s,
    )
  })
})

describe('answers that are errors', () => {
  test('an unexpected error is "internal" and reveals only the request id', async () => {
    http.sandboxes.refusal = new Error('cannot open /var/lib/dormouse/state.db: secret')
    const answer = await http.send('POST', '/v1/sandboxes', {})
    expect([answer.status, answer.json.error.code]).toEqual([500, 'internal'])
    expect(answer.text).not.toMatch(/secret|state\.db|at /)
    const logged = http.log.find((line) => line.includes('secret'))
    expect(logged).toContain(answer.json.error.requestId)
  })

  test('paths of the host are taken out of what callers see, wherever they are', async () => {
    http.sandboxes.refusal = new DormouseError(
      'restore_failed',
      'criu: /var/lib/dormouse/snapshots/sn-1/x.img: bad',
      {
        hint: 'see /var/lib/dormouse/log',
        details: { log: '/var/lib/dormouse/log', path: '/home/user/data' },
      },
    )
    const { text, json } = await http.send('POST', '/v1/sandboxes', {})
    expect(text).not.toContain('/var/lib')
    expect(json.error).toMatchObject({ code: 'restore_failed', details: { path: '/home/user/data' } })
  })

  test('a refusal that knows when to come back says so in a header', async () => {
    http.sandboxes.refusal = new DormouseError('overloaded', 'busy', { details: { retryAfterMs: 1500 } })
    const answer = await http.send('POST', '/v1/sandboxes', {})
    expect([answer.status, answer.headers['retry-after']]).toEqual([503, '2'])
  })

  test('the log has one line per request, without key, query or body', async () => {
    await http.send(
      'POST',
      '/v1/sandboxes?token=hunter2',
      { metadata: { a: 'hunter3' } },
      { 'x-request-id': 'mine-1' },
    )
    await http.send('POST', '/v1/run', { code: 'hunter4' })
    const lines = http.log.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'request')
    expect(lines).toHaveLength(2)
    expect(lines[0]).toMatchObject({ reqId: 'mine-1', method: 'POST', route: '/v1/sandboxes', status: 400 })
    expect(http.log.join('')).not.toMatch(/hunter|dm_[a-z0-9]+_/)
  })
})

function port(): number {
  return (http.app.server.address() as AddressInfo).port
}
