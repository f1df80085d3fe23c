import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { EchoSocket, send, serveInside } from './ports/harness.ts'
import { ServerProcess } from './server-process.ts'

const DOMAIN = 'preview.example.com'
const IDLE_MS = 400

let server: ServerProcess
let id: string
let at: string
let host: string
beforeAll(async () => {
  server = await ServerProcess.start({ domain: DOMAIN, idleConnectionMs: IDLE_MS })
  id = await serveInside(server)
  at = `/v1/sandboxes/${id}/ports/8000`
  host = `8000-${id}.${DOMAIN}`
})
afterAll(async () => {
  await server?.cleanUp()
})

const key = () => ({ authorization: `Bearer ${server.key}` })
const newKey = async (scopes: string[]) =>
  (await server.ok('/v1/keys', { json: { name: 'x', scopes } })) as { id: string; key: string }
const linkOf = async (body: object = {}, options: object = {}) => {
  const link = await server.ok(`${at}/link`, { json: body, ...options })
  const url = new URL(link.url)
  return {
    ...link,
    url,
    target: url.pathname + url.search,
    token: url.searchParams.get('dormouse-token') as string,
  }
}
const byHost = (target: string, headers: object = {}, method = 'GET') =>
  send(server, target, { method, headers: { host, ...headers } })

describe('who may reach a port', () => {
  test('without a key 401, also for what does not exist; a wrong key 401; another tenant 404', async () => {
    const nobodys = 'sb-2222222222222222'
    for (const path of [`${at}/`, `/v1/sandboxes/${nobodys}/ports/8000/`, '/v1/sandboxes/name/ports/8000/'])
      expect(await send(server, path), path).toMatchObject({
        status: 401,
        json: { error: { code: 'unauthorized' } },
      })
    expect(await byHost('/')).toMatchObject({ status: 401 })
    expect(await send(server, '/', { headers: { host: `8000-${nobodys}.${DOMAIN}` } })).toMatchObject({
      status: 401,
    })
    const wrong = { authorization: `${key().authorization.slice(0, -2)}aa` }
    expect(await byHost('/', wrong)).toMatchObject({ status: 401 })
    const other = await newKey(['run'])
    const reader = await newKey(['read'])
    for (const request of [
      { path: `${at}/`, headers: {} },
      { path: '/', headers: { host } },
    ]) {
      const as = (one: { key: string }) => ({
        headers: { ...request.headers, authorization: `Bearer ${one.key}` },
      })
      expect(await send(server, request.path, as(other))).toMatchObject({ status: 404 })
      expect((await send(server, request.path, as(reader))).status).toBe(404)
    }
    const { id: own } = await server.ok('/v1/sandboxes', { json: {}, key: other.key })
    expect(
      await send(server, `/v1/sandboxes/${own}/ports/1/`, {
        headers: { authorization: `Bearer ${other.key}` },
      }),
    ).toMatchObject({ status: 502 })
    await server.ok(`/v1/sandboxes/${own}`, { method: 'DELETE' })
  })

  test('by name: with a key by host name and path, with a link by path alone', async () => {
    await server.ok(`/v1/sandboxes/${id}`, { method: 'PATCH', json: { name: 'my-app' } })
    const named = { host: `8000-my-app.${DOMAIN}` }
    const { token, pathUrl } = await linkOf()
    const path = '/v1/sandboxes/my-app/ports/8000/'
    expect(await send(server, '/', { headers: { ...named, ...key() } })).toMatchObject({ status: 200 })
    expect(await send(server, path, { headers: key() })).toMatchObject({ status: 200 })
    expect(await send(server, `${path}?dormouse-token=${token}`)).toMatchObject({ status: 200 })
    expect(await send(server, `/?dormouse-token=${token}`, { headers: named })).toMatchObject({ status: 401 })
    expect((await fetch(pathUrl)).status).toBe(200)
    await server.ok(at, { method: 'PUT', json: { access: 'public' } })
    expect(await send(server, '/', { headers: named })).toMatchObject({
      status: 401,
      headers: { 'dormouse-refused': 'true' },
    })
    await server.ok(at, { method: 'PUT', json: { access: 'private' } })
    const other = await newKey(['run'])
    const stranger = { authorization: `Bearer ${other.key}` }
    expect(await send(server, '/', { headers: { ...named, ...stranger } })).toMatchObject({ status: 404 })
    await server.ok(`/v1/sandboxes/${id}`, { method: 'PATCH', json: { name: null } })
  })

  test('an Authorization that is not one of our keys is for the server inside', async () => {
    await server.ok(at, { method: 'PUT', json: { access: 'public' } })
    const authorization = 'Basic dXNlcjpwYXNz'
    const { json } = await byHost('/', { authorization })
    expect(json.headers).toContainEqual(['authorization', authorization])
    await server.ok(at, { method: 'PUT', json: { access: 'private' } })
    expect(await byHost('/', { authorization })).toMatchObject({ status: 401 })
  })

  test('a public port is open to every client, with or without a key, until it is private again', async () => {
    expect(await server.ok(at, { method: 'PUT', json: { access: 'public' } })).toMatchObject({
      access: 'public',
      isListening: true,
    })
    expect((await server.ok(`/v1/sandboxes/${id}/ports`)).items).toEqual([
      expect.objectContaining({ port: 8000, access: 'public', addresses: ['127.0.0.1'] }),
    ])
    expect(await byHost('/')).toMatchObject({ status: 200 })
    expect(await send(server, `${at}/`)).toMatchObject({ status: 200 })
    const other = await newKey(['run'])
    const { json, status } = await byHost('/', { authorization: `Bearer ${other.key}` })
    expect(status).toBe(200)
    expect(JSON.stringify(json)).not.toContain('dm_')
    // Only this port, and no fork.
    expect(await send(server, `/v1/sandboxes/${id}/ports/8001/`)).toMatchObject({ status: 401 })
    const { children } = await server.ok(`/v1/sandboxes/${id}/fork`, { json: { count: 1 } })
    expect(await send(server, `/v1/sandboxes/${children[0].id}/ports/8000/`)).toMatchObject({ status: 401 })
    await server.ok(`/v1/sandboxes/${children[0].id}`, { method: 'DELETE' })
    expect(await server.ok(at, { method: 'PUT', json: { access: 'private' } })).toMatchObject({
      access: 'private',
    })
    expect(await byHost('/')).toMatchObject({ status: 401 })
  })

  test('what is public stays so over a restart of the server, and links stay valid', async () => {
    await server.ok(at, { method: 'PUT', json: { access: 'public' } })
    const { token } = await linkOf()
    await server.kill()
    await server.begin()
    expect(await byHost('/')).toMatchObject({ status: 200 })
    await server.ok(at, { method: 'PUT', json: { access: 'private' } })
    expect(await byHost(`/?dormouse-token=${token}`)).toMatchObject({ status: 200 })
  })
})

describe('signed links', () => {
  test('a browser gets a cookie and the address without the token; the cookie opens this port alone', async () => {
    const { url, target, token } = await linkOf({ path: '/page?x=1', expiresInMs: 60_000 })
    expect(url.hostname).toBe(host)
    expect(url.port).toBe(new URL(server.url).port)
    const first = await byHost(target, { accept: 'text/html,*/*' })
    expect(first).toMatchObject({
      status: 303,
      headers: { location: '/page?x=1', 'referrer-policy': 'no-referrer' },
    })
    const [cookie = ''] = first.headers['set-cookie'] ?? []
    expect(cookie).toMatch(/^dormouse-preview=\S+; Path=\/; Max-Age=(59|60); HttpOnly; SameSite=Lax$/)
    const pair = cookie.split(';', 1)[0] ?? ''
    const { status, json } = await byHost('/page?x=1', { cookie: `mine=1; ${pair}` })
    expect({ status, path: json.path }).toEqual({ status: 200, path: '/page?x=1' })
    expect(json.headers).toContainEqual(['cookie', 'mine=1'])
    expect(JSON.stringify(json)).not.toContain(token)
    const elsewhere = { host: `8001-${id}.${DOMAIN}`, cookie: pair }
    expect(await send(server, '/', { headers: elsewhere })).toMatchObject({ status: 401 })
    const socket = new EchoSocket(`${server.url}/ws`, {
      headers: { host, cookie: pair, origin: `http://${host}` },
    })
    await socket.opened
    expect(await socket.ask('hello')).toBe('hello')
    socket.raw.close()
  })

  test('a program gets what it asked for at once, by host name and by path, and the token stays outside', async () => {
    const { target, token } = await linkOf({ path: '/page?x=1' })
    for (const reply of [
      await byHost(target),
      await send(server, `${at}${target}`),
      await byHost(target, {}, 'POST'),
    ]) {
      expect(reply).toMatchObject({ status: 200, json: { path: '/page?x=1' } })
      expect(JSON.stringify(reply.json)).not.toContain(token)
    }
  })

  test('by path the cookie is for the path; a redirect never leaves the server', async () => {
    const { token } = await linkOf()
    const html = { accept: 'text/html' }
    const byPath = await send(server, `${at}/a?dormouse-token=${token}`, { headers: html })
    expect(byPath).toMatchObject({ status: 303, headers: { location: `${at}/a` } })
    expect(byPath.headers['set-cookie']?.[0]).toContain(`; Path=${at}/;`)
    for (const target of [
      `//evil.example/?dormouse-token=${token}`,
      `/\\evil.example/?dormouse-token=${token}`,
    ])
      expect((await byHost(target, html)).headers.location).toBe('/evil.example/')
  })

  test('behind a proxy with TLS on this machine the cookie is secure and the link is https', async () => {
    const forwarded = { 'x-forwarded-proto': 'https', 'x-forwarded-host': DOMAIN }
    const { url, target } = await linkOf({}, { headers: forwarded })
    expect(url.origin).toBe(`https://${host}`)
    const { headers } = await byHost(target, { accept: 'text/html', 'x-forwarded-proto': 'https' })
    expect(headers['set-cookie']?.[0]).toMatch(/; Secure$/)
  })

  test('pages of other sandboxes cannot use the cookie', async () => {
    const { token } = await linkOf()
    const cookie = `dormouse-preview=forged; dormouse-preview=${token}`
    const sibling = `http://8000-sb-2222222222222222.${DOMAIN}`
    expect(await byHost('/', { cookie })).toMatchObject({ status: 200 })
    expect(await byHost('/', { cookie, origin: sibling })).toMatchObject({ status: 401 })
    expect(await byHost('/', { cookie, origin: 'null' })).toMatchObject({ status: 401 })
    expect(
      await byHost('/', { cookie, 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' }),
    ).toMatchObject({ status: 401 })
    expect(
      await byHost('/', { cookie, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }),
    ).toMatchObject({ status: 200 })
    const socket = new EchoSocket(`${server.url}/ws`, { headers: { host, cookie, origin: sibling } })
    expect(await socket.ended).toBe(401)
  })

  test('a link that has expired, was changed, or is for another port does not open it', async () => {
    const short = await linkOf({ expiresInMs: 2_000 })
    const over = sleep(2_100)
    expect(await byHost(short.target)).toMatchObject({ status: 200 })
    const { token } = await linkOf()
    const [expires = '', keyId = '', mac = ''] = token.split('.')
    const later = (Number.parseInt(expires, 36) + 1).toString(36)
    const changed = `${mac.startsWith('A') ? 'B' : 'A'}${mac.slice(1)}`
    for (const bad of [
      `${later}.${keyId}.${mac}`,
      `${expires}.${keyId}.${changed}`,
      `${expires}.${'2'.repeat(12)}.${mac}`,
      '',
      'x',
    ])
      expect(await byHost(`/?dormouse-token=${bad}`), bad).toMatchObject({ status: 401 })
    expect(
      await send(server, `/?dormouse-token=${token}`, { headers: { host: `8001-${id}.${DOMAIN}` } }),
    ).toMatchObject({ status: 401 })
    await over
    expect(await byHost(short.target)).toMatchObject({ status: 401 })
    expect(await byHost('/', { cookie: `dormouse-preview=${short.token}` })).toMatchObject({ status: 401 })
  })

  test('a link ends with the key that made it, and only a key that may run makes one', async () => {
    const maker = await newKey(['admin'])
    const { target } = await linkOf({}, { key: maker.key })
    expect(await byHost(target)).toMatchObject({ status: 200 })
    await server.ok(`/v1/keys/${maker.id}`, { method: 'DELETE' })
    expect(await byHost(target)).toMatchObject({ status: 401 })
    const reader = await newKey(['read'])
    expect(await server.call(`${at}/link`, { json: {}, key: reader.key })).toMatchObject({ status: 403 })
  })

  const openBy = async (token: string, headers: object = {}) => {
    const socket = new EchoSocket(`${server.url}/ws?dormouse-token=${token}`, {
      headers: { host, ...headers },
    })
    await socket.opened
    return socket
  }

  test('what a link or its cookie has opened ends when its time is over', async () => {
    const { token } = await linkOf({ expiresInMs: 4_000 })
    const cookie = `dormouse-preview=${token}`
    const sockets = [await openBy(token), await openBy('', { cookie })]
    const slow = byHost(`/slow?dormouse-token=${token}`).then(
      () => 'whole',
      () => 'broken',
    )
    const long = await openBy((await linkOf({ expiresInMs: 30 * 24 * 3600 * 1000 })).token)
    for (const socket of sockets) expect(await socket.ended).toBe(1006)
    expect(await slow).toBe('broken')
    expect(await long.ask('still here')).toBe('still here')
    long.raw.close()
  })

  test('what a link has opened ends with the key that made it', async () => {
    const maker = await newKey(['admin'])
    const { token } = await linkOf({}, { key: maker.key })
    const sockets = [await openBy(token), await openBy('', { cookie: `dormouse-preview=${token}` })]
    await server.ok(`/v1/keys/${maker.id}`, { method: 'DELETE' })
    for (const socket of sockets) expect(await socket.ended).toBe(1006)
  })
})
