import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { EchoSocket, send, serveInside } from './ports/harness.ts'
import { ServerProcess } from './server-process.ts'

const DOMAIN = 'preview.example.com'
const IDLE_MS = 400
const PIECE_BYTES = 16_384
/** More than the buffers on both sides of the server hold, and less than a sandbox may keep asleep. */
const UNDER_WAY_MAX_BYTES = 6_000_000

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
const byHost = (target: string, headers: object = {}, method = 'GET') =>
  send(server, target, { method, headers: { host, ...headers } })

describe('sleep and connections', () => {
  const state = async (one = id) => (await server.ok(`/v1/sandboxes/${one}`)).state
  const policy = (idleTimeoutMs: number) =>
    server.ok(`/v1/sandboxes/${id}`, { method: 'PATCH', json: { idleTimeoutMs } })

  test.each(['frozen', 'stored'])('a request wakes a sandbox that is %s, and is answered', async (tier) => {
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier } })
    expect(await byHost('/awake', key())).toMatchObject({ status: 200, json: { path: '/awake' } })
    const { items } = await server.ok(`/v1/sandboxes/${id}/ledger?limit=1000`)
    expect(items.at(-1)).toMatchObject({ event: 'woke', cause: 'port' })
  })

  test('twenty requests at once wake it once, and all are answered; a request without a right does not wake it', async () => {
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    expect(await byHost('/')).toMatchObject({ status: 401 })
    expect(await state()).toBe('standby')
    const wakes = async () =>
      (await server.ok(`/v1/sandboxes/${id}/ledger?limit=1000`)).items.filter(
        ({ event }: { event: string }) => event === 'woke',
      ).length
    const before = await wakes()
    const replies = await Promise.all(Array.from({ length: 20 }, () => byHost('/', key())))
    expect(replies.map(({ status }) => status)).toEqual(Array(20).fill(200))
    expect(await wakes()).toBe(before + 1)
  })

  test('a WebSocket keeps it awake while it carries something, and an idle one lets it sleep and wakes it', async () => {
    await policy(1_500)
    const socket = new EchoSocket(`${server.url}/ws`, { headers: { host, ...key() } })
    await socket.opened
    for (let n = 0; n < 10; n += 1) {
      expect(await socket.ask(`${n}`)).toBe(`${n}`)
      await sleep(300)
    }
    expect(await state()).toBe('running')
    await expect.poll(() => state(), { timeout: 15_000 }).toBe('standby')
    expect(await socket.ask('back')).toBe('back')
    expect(await state()).toBe('running')
    socket.raw.close()
    await policy(0)
  })

  const connections = (keepAsleepMs: number) =>
    server.ok(`/v1/sandboxes/${id}`, { method: 'PATCH', json: { connections: { keepAsleepMs } } })

  test('a requested standby ends a TCP connection with "going away" if the policy keeps none', async () => {
    await connections(0)
    const socket = new EchoSocket(`${server.url}${at}/tcp`, { headers: key() })
    expect(JSON.parse(await socket.message(0))).toEqual({ type: 'start' })
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    expect(await socket.ended).toBe(1001)
    expect(await state()).toBe('standby')
    await connections(3_600_000)
  })

  test.each(['frozen', 'stored'])(
    '%s: a WebSocket continues after ten sleeps, awake or not',
    async (tier) => {
      const socket = new EchoSocket(`${server.url}/ws`, { headers: { host, ...key() } })
      await socket.opened
      for (let round = 0; round < 10; round += 1) {
        await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier } })
        expect(await state()).toBe('standby')
        if (round % 2 === 0) await server.ok(`/v1/sandboxes/${id}/resume`, { json: {} })
        expect(await socket.ask(`round ${round}`)).toBe(`round ${round}`)
      }
      await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier } })
      const { summary } = await server.ok(`/v1/sandboxes/${id}/why`)
      expect(summary).toContain('A connection is kept for 60 min.')
      // A client that leaves meanwhile wakes nothing; the program inside sees the end later.
      socket.raw.terminate()
      await socket.ended
      expect(await state()).toBe('standby')
      expect(await byHost('/', key())).toMatchObject({ status: 200 })
    },
  )

  test('no byte is lost or doubled on the way to a port and back, in fifty sleeps under load', async ({
    signal,
  }) => {
    const echo = `
import socketserver, threading
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536): self.request.sendall(data)
class Server(socketserver.ThreadingTCPServer): daemon_threads = True; address_family = 10
threading.Thread(target=Server(("::1", 8006), Echo).serve_forever, daemon=True).start()`
    await server.run(id, echo)
    const socket = new EchoSocket(`${server.url}/v1/sandboxes/${id}/ports/8006/tcp`, {
      ...{ headers: key(), keepsBytes: false },
    })
    const [sent, back] = [createHash('sha256'), createHash('sha256')]
    let [sentBytes, backBytes] = [0, 0]
    expect(JSON.parse(await socket.message(0))).toEqual({ type: 'start' })
    socket.raw.on('message', (data: Buffer, isBinary) => {
      if (isBinary) back.update(data)
      backBytes += isBinary ? data.length : 0
    })
    const send = () => {
      const piece = randomBytes(PIECE_BYTES)
      sent.update(piece)
      sentBytes += piece.length
      socket.raw.send(piece)
    }
    const sending = setInterval(() => {
      if (sentBytes - backBytes <= UNDER_WAY_MAX_BYTES) send()
    }, 1)
    onTestFinished(() => {
      clearInterval(sending)
      socket.raw.terminate()
    })
    // A connection that the program has not accepted yet cannot be saved.
    await expect.poll(() => backBytes, { timeout: 60_000, interval: 5 }).toBeGreaterThan(0)
    // After its time-out it must not put the sandbox to sleep below the tests behind it.
    for (let round = 0; round < 50 && !signal.aborted; round += 1) {
      const before = sentBytes
      const tier = round % 10 === 0 ? 'stored' : 'frozen'
      await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier } })
      // What the client sends wakes it, also when as much is under way as it sends ahead: the sandbox may have fallen asleep
      // with all of that inside. All of it comes back, so never more is under way than may be kept asleep.
      send()
      await expect.poll(() => backBytes, { timeout: 60_000, interval: 5 }).toBeGreaterThanOrEqual(before)
    }
    clearInterval(sending)
    await expect.poll(() => backBytes, { timeout: 60_000 }).toBe(sentBytes)
    expect(back.digest('hex')).toBe(sent.digest('hex'))
  }, 300_000)

  test('events of a stream continue after a sleep', async () => {
    const events = await fetch(`${server.url}${at}/events`, { headers: key() })
    const reader = events.body?.pipeThrough(new TextDecoderStream()).getReader()
    let text = (await reader?.read())?.value ?? ''
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    await server.ok(`/v1/sandboxes/${id}/resume`, { json: {} })
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read())
      text += part.value
    expect(text).toBe([0, 1, 2, 3, 4].map((n) => `data: ${n}\n\n`).join(''))
  })

  test('the parent of a fork keeps its WebSocket, and a rollback ends it', async () => {
    const socket = new EchoSocket(`${server.url}/ws`, { headers: { host, ...key() } })
    await socket.opened
    const { children } = await server.ok(`/v1/sandboxes/${id}/fork`, { json: { count: 1 } })
    expect(await socket.ask('still')).toBe('still')
    for (const child of children) await server.ok(`/v1/sandboxes/${child.id}`, { method: 'DELETE' })
    const { id: snapshotId } = await server.ok(`/v1/sandboxes/${id}/snapshots`, { json: {} })
    expect(await socket.ask('and still')).toBe('and still')
    await server.ok(`/v1/sandboxes/${id}/rollback`, { json: { snapshotId } })
    expect([1001, 1005, 1006]).toContain(await socket.ended)
  })

  test('waiting for a port gives up in time, also when the sandbox sleeps meanwhile', async () => {
    const wait = (timeoutMs: number) =>
      server.call(`/v1/sandboxes/${id}/ports/7777/wait`, { json: { timeoutMs } })
    expect(await wait(100)).toMatchObject({ status: 502, body: { error: { code: 'port_closed' } } })
    const waiting = wait(1_500)
    await sleep(200)
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    expect(await waiting).toMatchObject({ status: 502, body: { error: { code: 'port_closed' } } })
    expect(await state()).toBe('standby')
  })

  test('a revoked key ends its connections', async () => {
    const maker = await newKey(['admin'])
    const headers = { host, authorization: `Bearer ${maker.key}` }
    const socket = new EchoSocket(`${server.url}/ws`, { headers })
    await socket.opened
    await server.ok(`/v1/keys/${maker.id}`, { method: 'DELETE' })
    expect(await socket.ended).toBe(1006)
  })

  test('a server that ends does not wait for connections', async () => {
    const socket = new EchoSocket(`${server.url}/ws`, { headers: { host, ...key() } })
    await socket.opened
    await server.stop()
    expect(await socket.ended).toBe(1006)
    await server.begin()
    expect(await byHost('/', key())).toMatchObject({ status: 200 })
  })
})
