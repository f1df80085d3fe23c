import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { ERRORS } from '@dormouse/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from './server-process.ts'

let server: ServerProcess
let deleted = ''
beforeAll(async () => {
  server = await ServerProcess.start()
  await server.ok('/v1/sandboxes', { json: { name: 'taken', idleTimeoutMs: 0 } })
  deleted = (await server.ok('/v1/sandboxes', { json: {} })).id
  await server.ok(`/v1/sandboxes/${deleted}`, { method: 'DELETE' })
  await server.run('taken', 'open("/root/a", "w").write("a")')
})
afterAll(() => server?.cleanUp())

type Case = [
  what: string,
  path: string,
  options: Parameters<ServerProcess['call']>[1],
  code: keyof typeof ERRORS,
]

const at = '/v1/sandboxes/taken'
const post = (path: string, json: unknown): [string, object] => [path, { json }]
const raw = (path: string, body: string | Buffer, type = 'application/json'): [string, object] => [
  path,
  { method: 'POST', body, headers: { 'content-type': type } },
]
const MIB = 1024 ** 2

const CASES: readonly Case[] = [
  ['an unknown field', ...post('/v1/sandboxes', { colour: 'red' }), 'invalid_argument'],
  ['an unknown field deep inside', ...post('/v1/sandboxes', { limits: { disks: 1 } }), 'invalid_argument'],
  ['an unknown field in a patch', at, { method: 'PATCH', json: { state: 'running' } }, 'invalid_argument'],
  ['an unknown query parameter', '/v1/sandboxes?colour=red', {}, 'invalid_argument'],
  ['a number where a text belongs', ...post('/v1/sandboxes', { name: 5 }), 'invalid_argument'],
  ['a text where a number belongs', ...post(`${at}/fork`, { count: '3' }), 'invalid_argument'],
  ['a list where an object belongs', ...post('/v1/sandboxes', []), 'invalid_argument'],
  ['a negative time', ...post('/v1/sandboxes', { idleTimeoutMs: -1 }), 'invalid_argument'],
  ['half a millisecond', ...post('/v1/sandboxes', { idleTimeoutMs: 0.5 }), 'invalid_argument'],
  ['a huge time', ...post('/v1/sandboxes', { idleTimeoutMs: 1e300 }), 'invalid_argument'],
  ['a number that JSON cannot hold', ...raw('/v1/sandboxes', '{"idleTimeoutMs":1e999}'), 'invalid_argument'],
  ['a huge memory', ...post('/v1/sandboxes', { limits: { memoryBytes: 2 ** 60 } }), 'invalid_argument'],
  [
    'a negative memory in a patch',
    at,
    { method: 'PATCH', json: { limits: { memoryBytes: -1 } } },
    'invalid_argument',
  ],
  ['a huge limit of a list', '/v1/sandboxes?limit=1000000', {}, 'invalid_argument'],
  ['a NUL in code', ...post(`${at}/run`, { code: 'print("\0")' }), 'invalid_argument'],
  ['a NUL in a path', `${at}/files?path=/root/a%00b`, {}, 'invalid_argument'],
  [
    'a NUL in a path to write',
    `${at}/files?path=/root/a%00b`,
    { method: 'PUT', body: 'x' },
    'invalid_argument',
  ],
  ['a NUL in metadata', ...post('/v1/sandboxes', { metadata: { a: '\0' } }), 'invalid_argument'],
  ['a NUL in the environment', ...post('/v1/sandboxes', { env: { A: '\0' } }), 'invalid_argument'],
  ['.. as a name', ...post('/v1/sandboxes', { name: '..' }), 'invalid_argument'],
  ['.. as an id', '/v1/sandboxes/%2e%2e%2fetc', {}, 'invalid_argument'],
  [
    '.. in a mount',
    ...post('/v1/sandboxes', { volumes: [{ volume: 'v', path: '/a/../etc' }] }),
    'invalid_argument',
  ],
  ['.. to the root and beyond', `${at}/files?path=/../../../../var/lib/dormouse/state.db`, {}, 'not_found'],
  [
    'a body that is no UTF-8',
    ...raw('/v1/sandboxes', Buffer.from('{"name":"\xff"}', 'latin1')),
    'invalid_argument',
  ],
  ['half a surrogate', ...raw(`${at}/run`, '{"code":"\\ud800"}'), 'invalid_argument'],
  ['a path that is no UTF-8', `${at}/files?path=%ff`, {}, 'invalid_argument'],
  ['half a JSON', ...raw('/v1/sandboxes', '{"name":'), 'invalid_argument'],
  [
    'JSON without a bottom',
    ...raw('/v1/sandboxes', '['.repeat(50_000) + ']'.repeat(50_000)),
    'invalid_argument',
  ],
  ['another content type', ...raw('/v1/sandboxes', '{}', 'text/plain'), 'unsupported_media_type'],
  ['a body over the limit', ...post('/v1/sandboxes', { metadata: { a: 'x'.repeat(2 * MIB) } }), 'too_large'],
  ['code over the limit', ...post(`${at}/run`, { code: 'x'.repeat(9 * MIB) }), 'invalid_argument'],
  ['a run over the limit of its body', ...post(`${at}/run`, { code: 'x'.repeat(17 * MIB) }), 'too_large'],
  ['a fork of 0', ...post(`${at}/fork`, { count: 0 }), 'invalid_argument'],
  ['a fork of 1000', ...post(`${at}/fork`, { count: 1000 }), 'invalid_argument'],
  ['an unknown template', ...post('/v1/sandboxes', { template: 'cobol' }), 'template_not_found'],
  [
    'an unknown template for one run',
    ...post('/v1/run', { code: '1', template: 'cobol' }),
    'template_not_found',
  ],
  ['a name that is taken', ...post('/v1/sandboxes', { name: 'taken' }), 'name_taken'],
  ['an unknown context', `${at}/contexts/nowhere`, { method: 'DELETE' }, 'not_found'],
  ['an unknown snapshot', ...post(`${at}/rollback`, { snapshotId: 'sn-2222222222222222' }), 'not_found'],
  ['an unknown run', `${at}/runs/run-2222222222222222`, {}, 'not_found'],
  ['an unknown process', `${at}/processes/99999`, {}, 'not_found'],
  ['an unknown route', '/v1/nothing', {}, 'not_found'],
  ['another method', '/v1/sandboxes', { method: 'PUT' }, 'method_not_allowed'],
  [
    'an answer that there is not',
    `${at}/run`,
    { json: { code: '1' }, headers: { accept: 'image/png' } },
    'not_acceptable',
  ],
  ['no key', '/v1/sandboxes', { headers: { authorization: '' } }, 'unauthorized'],
  ['a key that is none', '/v1/sandboxes', { key: 'dm_2222_x' }, 'unauthorized'],
]

async function everything(): Promise<unknown> {
  const lists = await Promise.all(
    ['sandboxes', 'snapshots', 'templates', 'keys'].map((list) => server.ok(`/v1/${list}`)),
  )
  const runs = await server.ok(`${at}/runs`)
  const files = await server.ok(`${at}/files/list?path=/root&depth=3`)
  const text = JSON.stringify([lists, runs, files])
  return text.replace(/"lastActiveAt":"[^"]*"/g, '')
}

describe('bad input', () => {
  test.each(CASES)(
    '%s is refused with its code and a hint, and changes nothing',
    async (_what, path, options, code) => {
      const before = await everything()
      const { status, body, headers } = await server.call(path, options)
      expect(body).toMatchObject({
        error: {
          code,
          message: expect.stringMatching(/./),
          hint: expect.stringMatching(/\.$/),
          docs: `docs/errors.md#${code}`,
        },
      })
      expect(status).toBe(ERRORS[code].status)
      expect(headers.get('x-request-id')).toBe(body.error.requestId)
      expect(await everything()).toEqual(before)
    },
  )

  test('every route of a deleted sandbox says that it is not there', async () => {
    const { paths } = await server.ok('/openapi.json')
    const below =
      Object.entries<Record<string, { parameters?: { in: string; name: string; required: boolean }[] }>>(
        paths,
      )
    const before = await everything()
    let tried = 0
    for (const [path, methods] of below.filter(([path]) => path.startsWith('/v1/sandboxes/{id}'))) {
      for (const [method, { parameters = [] }] of Object.entries(methods)) {
        // Only for WebSockets.
        if (path.endsWith('/pty') || path.endsWith('/tcp')) continue
        const address = path
          .replace('{id}', deleted)
          .replace('{runId}', 'run-2222222222222222')
          .replace('{processId}', '5')
          .replace('{port}', '8000')
        const query = parameters.some(({ name }) => name === 'path') ? '?path=/a' : ''
        const names = path.split('/')
        const example = BODIES[names.slice(-2).join('/')] ?? BODIES[names.at(-1) ?? '']
        const json = example ?? (method === 'patch' ? { idleTimeoutMs: 1 } : undefined)
        const isBytes = (method === 'put' && json === undefined) || path.endsWith('stdin')
        const { status, body } = await server.call(address.replace('{name}', 'default') + query, {
          method: method.toUpperCase(),
          ...(isBytes && { body: 'x', headers: { 'content-type': 'application/octet-stream' } }),
          ...(!isBytes && method !== 'get' && method !== 'delete' && { json: json ?? {} }),
        })
        expect([status, body?.error.code], `${method} ${path}`).toEqual([404, 'not_found'])
        tried += 1
      }
    }
    expect(tried).toBeGreaterThan(30)
    expect(await everything()).toEqual(before)
  })

  test('every code that a caller can meet is explained where the answer says', () => {
    const text = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8')
    for (const [, , , code] of CASES) expect(text).toContain(`\n## ${code}\n`)
  })

  test.each([
    ['no HTTP', 'hello\r\n\r\n', 400, 'invalid_argument'],
    ['a NUL in a header', 'GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: a\0b\r\n\r\n', 400, 'invalid_argument'],
    [
      'two lengths',
      'POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}',
      400,
      'invalid_argument',
    ],
    [
      'a length and chunks',
      'POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      400,
      'invalid_argument',
    ],
    [
      'huge headers',
      `GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ${'a'.repeat(40_000)}\r\n\r\n`,
      431,
      'headers_too_large',
    ],
    ['a huge address', `GET /${'a'.repeat(40_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 431, 'headers_too_large'],
  ])('bytes that are no request (%s) get an answer of the same shape', async (_what, bytes, status, code) => {
    const text = await exchange(bytes)
    expect(text).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(JSON.parse(text.split('\r\n\r\n')[1] ?? '')).toMatchObject({ error: { code } })
    expect((await server.call('/healthz')).status).toBe(200)
  })
})

const BODIES: Record<string, unknown> = {
  '{port}': { access: 'public' },
  run: { code: '1' },
  contexts: { name: 'a' },
  complete: { code: '1' },
  input: { seq: 1 },
  mkdir: { path: '/a' },
  'files/move': { from: '/a', to: '/b' },
  '{id}/move': { node: 'host-0a1b2c3d4e' },
  processes: { command: 'true' },
  signal: { signal: 'SIGTERM' },
  resize: { cols: 1, rows: 1 },
  hold: { what: 'x', forMs: 1 },
  rollback: { snapshotId: 'sn-2222222222222222' },
}

function exchange(bytes: string): Promise<string> {
  const { hostname, port } = new URL(server.url)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname)
    let text = ''
    socket.on('data', (data: Buffer) => {
      text += data.toString()
    })
    socket
      .on('close', () => resolve(text))
      .on('error', (error) => (text === '' ? reject(error) : resolve(text)))
    socket.write(bytes)
  })
}
