import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestApp, testApp } from './testing/test-app.ts'

const PAGE = 'https://app.example.com'

let open: TestApp
let closed: TestApp
beforeAll(async () => {
  open = await testApp({ origins: [PAGE, 'http://localhost:5173'] })
  closed = await testApp()
})
afterAll(async () => {
  await open?.[Symbol.asyncDispose]()
  await closed?.[Symbol.asyncDispose]()
})

const preflight = (http: TestApp, origin: string, url = '/v1/sandboxes') =>
  http.app.inject({
    method: 'OPTIONS',
    url,
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,content-type',
    },
  })
const allowed = (answer: { headers: object }) =>
  Object.entries(answer.headers).filter(([name]) => name.startsWith('access-control-'))

describe('pages of origins that the config names', () => {
  test.each([PAGE, 'http://localhost:5173'])('%s: a preflight is answered without a key', async (origin) => {
    const answer = await preflight(open, origin)
    expect(answer.statusCode).toBe(204)
    expect(answer.headers).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-allow-methods': expect.stringContaining('PATCH'),
      'access-control-allow-headers': 'authorization,content-type',
      'access-control-max-age': '7200',
      vary: expect.stringMatching(/origin/i),
      'x-request-id': expect.any(String),
    })
    expect(answer.headers).not.toHaveProperty('access-control-allow-credentials')
  })

  test('read answers and errors, with the headers that the SDK needs', async () => {
    const get = (headers: Record<string, string>) =>
      open.app.inject({ method: 'GET', url: '/v1/sandboxes', headers: { origin: PAGE, ...headers } })
    for (const [answer, status] of [
      [await get(open.as('read')), 200],
      [await get({}), 401],
    ] as const) {
      expect(answer.statusCode).toBe(status)
      expect(answer.headers['access-control-allow-origin']).toBe(PAGE)
      expect(answer.headers['access-control-expose-headers']).toContain('x-request-id')
    }
  })

  test('also read streams', async () => {
    const { id } = (
      await open.app.inject({ method: 'POST', url: '/v1/sandboxes', headers: open.as('run'), payload: {} })
    ).json()
    const answer = await open.app.inject({
      method: 'POST',
      url: `/v1/sandboxes/${id}/run`,
      headers: { ...open.as('run'), origin: PAGE, accept: 'application/x-ndjson' },
      payload: { code: '1' },
    })
    expect(answer.headers['content-type']).toContain('ndjson')
    expect(answer.headers['access-control-allow-origin']).toBe(PAGE)
  })
})

describe('pages of other origins', () => {
  test.each([
    'https://evil.example',
    'http://app.example.com',
    'https://app.example.com:8443',
    'https://app.example.com.evil.example',
    'https://sub.app.example.com',
    'null',
  ])('%s: are allowed nothing', async (origin) => {
    const asked = await preflight(open, origin)
    expect(asked.statusCode).toBe(405)
    expect(allowed(asked)).toEqual([])
    const answer = await open.app.inject({
      method: 'GET',
      url: '/v1/sandboxes',
      headers: { ...open.as('read'), origin },
    })
    expect(allowed(answer)).toEqual([])
  })

  test('none is allowed anything when the config names none', async () => {
    expect((await preflight(closed, PAGE)).statusCode).toBe(405)
    const answer = await closed.app.inject({ method: 'GET', url: '/healthz', headers: { origin: PAGE } })
    expect(allowed(answer)).toEqual([])
  })
})

test('a client that is no browser notices nothing of it', async () => {
  const answer = await open.app.inject({ method: 'OPTIONS', url: '/v1/sandboxes' })
  expect([answer.statusCode, answer.headers.allow]).toEqual([405, 'GET, POST'])
  expect((await open.app.inject({ method: 'OPTIONS', url: '/nowhere?a=b' })).statusCode).toBe(404)
})
