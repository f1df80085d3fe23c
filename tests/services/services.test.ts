import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { send } from '../server/ports/harness.ts'
import { ServerProcess } from '../server/server-process.ts'
import { ServiceServer } from './service-server.ts'

let services: ServiceServer
let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start({ idleTimeoutMs: 60_000 })
  services = new ServiceServer(server)
})
afterAll(async () => {
  await server?.cleanUp()
})

describe('a service', () => {
  test('answers at its path and its host name, and continues with its memory after a sleep', async () => {
    const { version, id, url, replicas } = await services.deploy('counter', { env: { VERSION: 'one' } })
    expect(version).toBe(1)
    expect(await services.ask('counter')).toMatchObject({ count: 1, version: 'one' })
    const { sandboxId } = replicas.items[0]
    await server.ok(`/v1/sandboxes/${sandboxId}/standby`, { json: { tier: 'stored' } })
    expect(await services.ask('counter')).toMatchObject({ count: 2 })
    const host = `${id}.localhost`
    const named = await send(server, '/x?y', { headers: { host, authorization: `Bearer ${server.key}` } })
    expect(named.json).toMatchObject({ count: 3 })
    expect(url).toBe(`http://${host}:${new URL(server.url).port}/`)
  })

  test('is an ordinary sandbox to other calls, and sleeps by itself', async () => {
    const { replicas } = await server.ok('/v1/services/counter')
    const { sandboxId } = replicas.items[0]
    expect(await server.ok(`/v1/sandboxes/${sandboxId}`)).toMatchObject({
      metadata: { 'dormouse/service': 'counter', 'dormouse/version': '1' },
    })
    await server.ok(`/v1/sandboxes/${sandboxId}`, { method: 'PATCH', json: { idleTimeoutMs: 200 } })
    await services.until('counter', (service) => !service.replicas.items[0].isAwake)
    expect(await services.ask('counter')).toMatchObject({ count: 4 })
    await server.ok(`/v1/sandboxes/${sandboxId}`, { method: 'PATCH', json: { idleTimeoutMs: 60_000 } })
  })

  test('needs a key unless it is public', async () => {
    const { id } = await server.ok('/v1/services/counter')
    const ask = () => fetch(`${server.url}/v1/services/${id}/http/`)
    expect((await ask()).status).toBe(401)
    await server.ok('/v1/services/counter', { method: 'PATCH', json: { public: true } })
    expect((await ask()).status).toBe(200)
    expect((await fetch(`${server.url}/v1/services/counter/http/`)).status).toBe(401)
    await server.ok('/v1/services/counter', { method: 'PATCH', json: { public: false } })
    expect((await ask()).status).toBe(401)
  })

  test('has the output of its program in its log, without waking, searched and followed', async () => {
    const all = await services.logs('counter')
    expect(all.map(({ text }) => text)).toContain('version one listens on 3000')
    expect(all.find(({ text }) => text === 'a word to stderr')).toMatchObject({ stream: 'stderr' })
    expect(new Set(all.map(({ seq }) => seq)).size).toBe(all.length)
    const found = await services.logs('counter', '?search=request%202')
    expect(found.map(({ text }) => text)).toEqual(['request 2 for /'])
    expect(await services.logs('counter', `?after=${found[0].seq}&tail=1`)).toHaveLength(1)
    const since = async (at: string) => (await services.logs('counter', `?since=${at}`)).map(({ seq }) => seq)
    expect(await since(new Date(Date.now() + 60_000).toISOString())).toEqual([])
    const later = all.filter(({ at }) => at >= found[0].at).map(({ seq }) => seq)
    expect(later.length).toBeLessThan(all.length)
    expect((await since(found[0].at)).slice(0, later.length)).toEqual(later) // There may be more by now.
    const stop = new AbortController()
    const following = await server.fetch('/v1/services/counter/logs?follow=true&tail=0&search=/followed', {
      signal: stop.signal,
    })
    for (const path of ['/passed', '/followed']) await services.ask('counter', path)
    let seen = ''
    for await (const piece of following.body as ReadableStream<Uint8Array>) {
      seen += Buffer.from(piece)
      if (seen.includes('/followed')) break
    }
    stop.abort()
    expect(seen).not.toContain('/passed')
  })

  test.each([
    [{ port: 0 }, 400],
    [{ port: 3000, template: 'nowhere' }, 202],
    [{ port: 3000, image: 'a', dockerfile: 'b' }, 400],
    [{ port: 3000, replicas: { min: 3, max: 2 } }, 400],
    [{ port: 3000, surprise: true }, 400],
    [{ port: 3000, secrets: ['NOWHERE'] }, 404],
    [{ port: 3000, volumes: [{ volume: 'nowhere', path: '/data' }] }, 404],
  ])('refuses a bad deployment, and the version before keeps serving: %j', async (request, expected) => {
    const { status, body } = await server.call('/v1/services/counter', { method: 'PUT', json: request })
    expect(status).toBe(expected)
    if (status === 202) {
      const after = await services.settled('counter', body.versions[0].version)
      expect(after.versions[0]).toMatchObject({ state: 'failed', error: expect.stringContaining('nowhere') })
    }
    expect(await services.ask('counter')).toMatchObject({ version: 'one' })
  })

  test('with a volume writes to it from every replica and version, over sleeps and rollbacks', async () => {
    await server.ok('/v1/volumes', { json: { name: 'data' } })
    const replicas = { max: 2, concurrency: 1 }
    const volumes = [{ volume: 'data', path: '/data' }]
    await services.deploy('keeper', { volumes, replicas })
    const hosts = new Set<string>()
    const keep = async () => {
      const { host, count } = await services.ask('keeper', '/keep')
      hosts.add(host)
      return `${host} ${count}`
    }
    const kept = [await keep()]
    while (hosts.size < 2) {
      const slow = services.ask('keeper', '/slow')
      kept.push(await keep())
      await slow
    }
    for (const { sandboxId } of (await server.ok('/v1/services/keeper')).replicas.items)
      await server.ok(`/v1/sandboxes/${sandboxId}/standby`, { json: { tier: 'stored' } })
    kept.push(await keep())
    await services.deploy('keeper', { volumes, env: { VERSION: '2' } })
    kept.push(await keep())
    await server.ok('/v1/services/keeper/rollback', { json: {} })
    kept.push(await keep())
    const file = await (await server.fetch('/v1/volumes/data/files?path=/kept')).text()
    expect(file.trimEnd().split('\n')).toEqual(kept)
  })

  test('serves WebSockets at its path and its host name, also after a sleep', async () => {
    const program = await readFile(new URL('../server/ports/inside.py', import.meta.url), 'utf8')
    const start = 'exec python3 -c "$PROGRAM" $PORT'
    const { id, replicas } = await services.deploy('echoing', { start, env: { PROGRAM: program } })
    const { host, origin } = new URL(server.url.replace('http', 'ws'))
    const authorization = `Bearer ${server.key}`
    const opened: WebSocket[] = []
    const open = async (path: string, name = host) => {
      const socket = new WebSocket(origin + path, { headers: { authorization, host: name } })
      opened.push(socket)
      await once(socket, 'open')
      return async (text: string) => {
        const answer = once(socket, 'message')
        socket.send(text)
        return String((await answer)[0])
      }
    }
    const sockets = [await open('/v1/services/echoing/http/ws'), await open('/ws', `${id}.localhost`)]
    for (const say of sockets) expect(await say('awake')).toBe('awake')
    const sandbox = `/v1/sandboxes/${replicas.items[0].sandboxId}`
    await server.ok(`${sandbox}/standby`, { json: { tier: 'stored' } })
    for (const say of sockets) expect(await say('after a sleep')).toBe('after a sleep')
    const anonymous = new WebSocket(`${origin}/v1/services/${id}/http/ws`)
    expect(((await once(anonymous, 'error')) as [Error])[0].message).toContain('401')
    for (const socket of opened) socket.terminate()
  })

  test('of another key is not found', async () => {
    const { key } = await server.ok('/v1/keys', { json: { name: 'other', scopes: ['run', 'read'] } })
    const { id } = await server.ok('/v1/services/counter')
    for (const ref of ['counter', id]) {
      expect((await server.call(`/v1/services/${ref}`, { key })).status).toBe(404)
      expect((await server.call(`/v1/services/${ref}/http/`, { key })).status).toBe(404)
    }
  })
})

describe('versions', () => {
  let startedAs: string

  test('requests go to the new version when it is ready, without one that fails', async () => {
    await services.deploy('moving', { env: { VERSION: '1' } })
    startedAs = (await services.ask('moving')).started
    const seen: string[] = []
    const stop = new AbortController()
    const asking = (async () => {
      while (!stop.signal.aborted) seen.push((await services.ask('moving')).version)
    })()
    await services.deploy('moving', { env: { VERSION: '2' } })
    await sleep(100)
    stop.abort()
    await asking
    expect(new Set(seen)).toEqual(new Set(['1', '2']))
    expect(seen).toEqual(seen.toSorted())
  })

  test('a program that ends before it is ready is a failed version, which says why and changes no setting', async () => {
    await server.ok('/v1/services/moving', { method: 'PATCH', json: { restart: 'never' } })
    const { versions, version, ...settings } = await services.deploy('moving', {
      ...{ start: 'echo no such luck; exit 7', public: true },
      health: { path: '/only-the-new-one-has-it', intervalMs: 1000, failures: 1 },
    })
    expect(settings).toMatchObject({ public: false, restart: 'never' })
    expect(settings).not.toHaveProperty('health')
    expect(version).toBe(2)
    expect(versions[0]).toMatchObject({
      state: 'failed',
      error: expect.stringMatching(/exit code 7.*no such luck/),
    })
    expect(await services.ask('moving')).toMatchObject({ version: '2' })
  })

  test('a rollback serves the older version from the state in which it was ready: it starts and builds nothing', async () => {
    // As in the replica that this version had: the memory in which it was ready, from before its first request.
    const programs = (await services.logs('moving')).filter(({ text }) => text.includes('listens on'))
    const back = await server.ok('/v1/services/moving/rollback', { json: {} })
    expect(back).toMatchObject({ version: 1 })
    const answer = await services.ask('moving')
    expect(answer).toMatchObject({ version: '1', count: 1, started: startedAs })
    const replica = back.replicas.items.find(({ version }: { version: number }) => version === 1)
    const { items: processes } = await server.ok(`/v1/sandboxes/${replica.sandboxId}/processes`)
    expect(processes).toHaveLength(1)
    expect((await services.logs('moving')).filter(({ text }) => text.includes('listens on'))).toEqual(
      programs,
    )
    expect(await server.ok('/v1/services/moving/rollback', { json: { version: 2 } })).toMatchObject({
      version: 2,
    })
    expect((await server.call('/v1/services/moving/rollback', { json: { version: 3 } })).status).toBe(409)
    expect((await server.call('/v1/services/moving/rollback', { json: { version: 9 } })).status).toBe(404)
  })

  test('older versions than the service keeps are removed', async () => {
    await server.ok('/v1/services/moving', { method: 'PATCH', json: { keepVersions: 1 } })
    await services.deploy('moving', { env: { VERSION: '4' } })
    await services.until('moving', ({ versions }) => versions.length === 2)
  })
})

describe('the program of a service', () => {
  test('starts again when it ends, after a pause that grows, and requests wait for it', async () => {
    await services.deploy('ending')
    await services.ask('ending')
    const begun: number[] = []
    for (const restarts of [1, 2, 3]) {
      await server.fetch('/v1/services/ending/http/end').catch(() => {})
      await services.until('ending', ({ replicas }) => replicas.items[0].state === 'restarting')
      expect(await services.ask('ending')).toMatchObject({ count: 1 })
      expect(await server.ok('/v1/services/ending')).toMatchObject({ replicas: { items: [{ restarts }] } })
    }
    const lines = await services.logs('ending')
    const said = lines.filter(({ stream }) => stream === 'system').map(({ text }) => text)
    expect(said.filter((text) => text === 'the program ended with exit code 3')).toHaveLength(3)
    expect(said.filter((text) => text.startsWith('it starts again in'))).toEqual(
      ['1 s', '2 s', '4 s'].map((pause) => `it starts again in ${pause}`),
    )
    for (const { text, at } of lines) if (text.includes('listens on')) begun.push(Date.parse(at))
    expect(begun).toHaveLength(4)
    expect((begun[3] ?? 0) - (begun[2] ?? 0)).toBeGreaterThan(4_000)
  })

  test('may stop listening without an end: requests wait until it listens', async () => {
    // As with `npm start`, whose npm outlives the program for a while.
    const start =
      'python3 -c "$PROGRAM"; until [ -e /tmp/again ]; do sleep 0.1; done; exec python3 -c "$PROGRAM"'
    const { replicas } = await services.deploy('wrapped', { start })
    const sandbox = `/v1/sandboxes/${replicas.items[0].sandboxId}`
    await server.fetch('/v1/services/wrapped/http/end').catch(() => {})
    await expect.poll(async () => (await server.ok(`${sandbox}/ports/3000`)).isListening).toBe(false)
    const waiting = [services.ask('wrapped'), services.ask('wrapped', '/', { method: 'POST' })]
    await server.run(replicas.items[0].sandboxId, 'open("/tmp/again", "w").close()')
    expect(await Promise.all(waiting)).toMatchObject([{ count: 1 }, { host: expect.any(String) }])
    expect(await server.ok('/v1/services/wrapped')).toMatchObject({ replicas: { items: [{ restarts: 0 }] } })
  })

  test('stays ended with restart never, and requests say so', async () => {
    await server.ok('/v1/services/ending', { method: 'PATCH', json: { restart: 'never' } })
    await server.fetch('/v1/services/ending/http/end').catch(() => {})
    await services.until('ending', ({ replicas }) => replicas.items[0].state === 'failed')
    const { status, body } = await server.call('/v1/services/ending/http/')
    expect({ status, code: body.error.code }).toEqual({ status: 503, code: 'service_unavailable' })
    await server.ok('/v1/services/ending', { method: 'PATCH', json: { restart: 'always' } })
    expect(await services.ask('ending')).toMatchObject({ count: 1 })
  })

  test('is ready when its health check succeeds, and is restarted when it fails', async () => {
    const health = { path: '/healthz', intervalMs: 1000, failures: 1 }
    const cold = await services.deploy('sick', {
      health,
      env: { WARM_AFTER: '1000' },
      ready: { port: 3000, timeoutMs: 2_000 },
    })
    expect(cold.versions[0]).toMatchObject({
      state: 'failed',
      error: expect.stringMatching(/not ready after 2000 ms.*\/healthz returned status 503/),
    })
    expect(await services.deploy('sick', { health, env: { WARM_AFTER: '1' } })).toMatchObject({ version: 2 })
    const { pid } = await services.ask('sick')
    await services.ask('sick', '/sick')
    await services.until('sick', ({ replicas }) => replicas.items[0].restarts === 1)
    await services.until('sick', ({ replicas }) => replicas.items[0].state === 'ready')
    expect((await services.ask('sick')).pid).not.toBe(pid)
  })
})

describe('a health check', () => {
  test('asks as often as its interval says, also after a sleep, and not while the service sleeps', async () => {
    const health = { path: '/healthz', intervalMs: 1000 }
    const { replicas } = await services.deploy('checked', { health })
    const path = `/v1/sandboxes/${replicas.items[0].sandboxId}`
    const askedAt = async () => {
      const lines = await services.logs('checked', '?search=for%20/healthz')
      return lines.map(({ at }: { at: string }) => Date.parse(at))
    }
    /** The usual time between two checks of the next three. */
    const usualGapMs = async () => {
      const before = (await askedAt()).length
      await expect.poll(async () => (await askedAt()).length, { timeout: 60_000 }).toBeGreaterThan(before + 3)
      const times = (await askedAt()).slice(before)
      const gaps = times.slice(1).map((time, index) => time - (times[index] ?? 0))
      return gaps.sort((a, b) => a - b)[Math.floor(gaps.length / 2)]
    }
    // The services themselves are looked after every five seconds.
    expect(await usualGapMs()).toBeLessThan(3_000)
    await server.ok(`${path}/standby`, { json: { tier: 'frozen' } })
    const asleep = (await askedAt()).length
    await sleep(2_500)
    expect((await askedAt()).length).toBe(asleep)
    await services.ask('checked')
    expect(await usualGapMs()).toBeLessThan(3_000)
    await server.ok('/v1/services/checked', { method: 'PATCH', json: { health: { intervalMs: 60_000 } } })
    const slowly = (await askedAt()).length
    await sleep(2_500)
    expect((await askedAt()).length).toBeLessThanOrEqual(slowly + 1)
    await server.ok('/v1/services/checked', { method: 'DELETE' })
  })
})

describe('replicas', () => {
  test('are added while there are many requests, and removed afterwards', async () => {
    await services.deploy('wide', { replicas: { max: 3, concurrency: 2, idleMs: 1000 } })
    const answers = []
    for (let round = 0; round < 4; round += 1)
      answers.push(...(await Promise.all(Array.from({ length: 8 }, () => services.ask('wide', '/slow')))))
    expect(new Set(answers.map(({ host }) => host)).size).toBe(3)
    await services.until('wide', ({ replicas }) => replicas.items.length === 1)
    expect(await services.ask('wide')).toMatchObject({ host: expect.any(String) })
  })

  test('keep the sessions that they began', async () => {
    await server.ok('/v1/services/wide', { method: 'PATCH', json: { replicas: { idleMs: 60_000 } } })
    const slow = Array.from({ length: 8 }, () => services.ask('wide', '/slow'))
    await services.until('wide', ({ replicas }) => replicas.items.length === 3)
    const begun = await Promise.all(
      Array.from({ length: 6 }, () => server.fetch('/v1/services/wide/http/', { method: 'POST' })),
    )
    // An agent has no header of its own: its client chooses the session.
    const chosen = await Promise.all(
      ['a', 'b', 'c', 'd', 'e', 'f'].map(async (session) => {
        const headers = { 'dormouse-session': session }
        return { headers, host: (await services.ask('wide', '/', { headers })).host }
      }),
    )
    await Promise.all(slow)
    expect(new Set(chosen.map(({ host }) => host)).size).toBeGreaterThan(1)
    for (const { headers, host } of chosen)
      expect(await services.ask('wide', '/', { headers })).toMatchObject({ host })
    for (const response of begun) {
      const session = response.headers.get('mcp-session-id') ?? ''
      const { host } = await response.json()
      const headers = { 'mcp-session-id': session }
      expect(await services.ask('wide', '/', { method: 'POST', headers })).toEqual({ host })
    }
  })

  test('stay awake as many as `min` says, and another one takes the place of one that is gone', async () => {
    await server.ok('/v1/services/wide', { method: 'PATCH', json: { replicas: { min: 2, max: 3 } } })
    const twoAwake = (service: { replicas: { items: { state: string; isAwake: boolean }[] } }) =>
      service.replicas.items.filter(({ state, isAwake }) => state === 'ready' && isAwake).length >= 2
    const { replicas } = await services.until('wide', twoAwake)
    for (const { sandboxId } of replicas.items.slice(0, 2))
      expect(JSON.stringify(await server.ok(`/v1/sandboxes/${sandboxId}/why`))).toContain('stays awake')
    for (const { sandboxId } of replicas.items)
      expect((await server.call(`/v1/sandboxes/${sandboxId}`, { method: 'DELETE' })).status).toBe(204)
    await services.until('wide', twoAwake)
    await server.ok('/v1/services/wide', { method: 'PATCH', json: { replicas: { min: 0, max: 3 } } })
  })
})

test('a service serves again after kill -9 of the server, with its versions, sessions and memory', async () => {
  const begun = await server.fetch('/v1/services/wide/http/', { method: 'POST' })
  const headers = { 'mcp-session-id': begun.headers.get('mcp-session-id') ?? '' }
  const { host } = await begun.json()
  const before = await services.ask('counter')
  await services.begin('unfinished', { start: 'sleep 1000' })
  await server.kill()
  await server.begin()
  expect(await services.ask('counter')).toMatchObject({ count: before.count + 1 })
  expect(await services.ask('wide', '/', { method: 'POST', headers })).toEqual({ host })
  const unfinished = await server.ok('/v1/services/unfinished')
  expect(unfinished).toMatchObject({ versions: [{ state: 'failed' }], replicas: { items: [] } })
})

test('deleting a service deletes its sandboxes, snapshots and templates', async () => {
  const { items } = await server.ok('/v1/services')
  for (const { name } of items)
    expect((await server.call(`/v1/services/${name}`, { method: 'DELETE' })).status).toBe(204)
  expect(await services.sandboxes()).toEqual([])
  expect((await server.ok('/v1/snapshots')).items).toEqual([])
  expect((await server.call('/v1/services/counter/http/')).status).toBe(404)
})
