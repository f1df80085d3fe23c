import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { highestUntilSteady } from '../highest-until-steady.ts'
import { ServerProcess } from './server-process.ts'

const MIB = 1024 ** 2
/** Of output that a reader does not take. There are three readers. */
const STREAM_MIB = 80
/** What the server may grow by: far less than what waits. */
const GROWTH_MIB = 150

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start()
  await server.ok('/v1/sandboxes', { json: { name: 'main', idleTimeoutMs: 0 } })
})
afterAll(() => server?.cleanUp())

function rssMib(): number {
  const status = readFileSync(`/proc/${server.pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024
}

/** Sends a request and reads nothing of its answer. */
function ask(method: string, path: string, body = '', accept = 'application/x-ndjson'): Socket {
  const { hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname).pause()
  socket.on('error', () => {})
  socket.write(
    `${method} ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${server.key}\r\nAccept: ${accept}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
  return socket
}

describe('clients that do not read', () => {
  test('a huge stream of a run does not pile up in the server', async () => {
    await server.run('main', `data = "x" * ${MIB - 1} + "\\n"`)
    const before = rssMib()
    const code = `import sys\nfor _ in range(${STREAM_MIB}): sys.stdout.write(data)\nsys.stdout.flush()`
    const sockets = [1, 2, 3].map(() =>
      ask('POST', '/v1/sandboxes/main/run', JSON.stringify({ code, timeoutMs: 110_000 })),
    )
    let most = before
    const finished = async () => {
      most = Math.max(most, rssMib())
      const { items } = await server.ok('/v1/sandboxes/main/runs')
      return items.filter((run: { state: string }) => run.state === 'finished').length
    }
    await expect.poll(finished, { timeout: 110_000, interval: 50 }).toBe(1 + sockets.length)
    for (const socket of sockets) socket.destroy()
    expect(most - before).toBeLessThan(GROWTH_MIB)
    expect((await server.call('/healthz')).status).toBe(200)
  }, 240_000)

  test('a huge file does not pile up in the server', async () => {
    await server.ok('/v1/sandboxes/main/run', {
      json: { code: 'truncate -s 400M /root/big', language: 'bash' },
    })
    const before = rssMib()
    const sockets = [1, 2, 3].map(() => ask('GET', '/v1/sandboxes/main/files?path=/root/big', '', '*/*'))
    const most = (await highestUntilSteady(() => rssMib() * MIB)) / MIB
    for (const socket of sockets) socket.destroy()
    expect(most - before).toBeLessThan(GROWTH_MIB)
  })
})

describe('usage and metrics', () => {
  test('usage counts what was done, in JSON and CSV, and standby costs less than always on', async () => {
    const { id } = await server.ok('/v1/sandboxes', { json: { name: 'used', idleTimeoutMs: 0 } })
    await server.run(
      'used',
      'import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass',
    )
    await server.ok('/v1/sandboxes/used/standby', { json: { tier: 'stored' } })
    await sleep(1_500)
    await server.run('used', 'pass')
    const { children } = await server.ok('/v1/sandboxes/used/fork', { json: { count: 1 } })
    await server.ok(`/v1/sandboxes/${children[0].id}`, { method: 'DELETE' })
    const report = await server.ok(`/v1/usage?sandboxId=${id}`)
    expect(report).toMatchObject({
      currency: 'USD',
      sandboxes: [{ sandboxId: id, name: 'used', deleted: false, forks: 1 }],
    })
    const [used] = report.sandboxes
    expect(used.wakes).toBeGreaterThanOrEqual(1)
    expect(used.cpuSeconds).toBeGreaterThan(0.3)
    expect(used.runningSeconds).toBeGreaterThan(used.cpuSeconds * 0.5)
    expect(used.memoryGbSeconds).toBeGreaterThan(0)
    expect(used.cost).toBeGreaterThan(0)
    expect(used.alwaysOnCost).toBeGreaterThan(used.cost)
    const all = await server.ok('/v1/usage')
    expect(all.sandboxes.find((one: { deleted: boolean }) => one.deleted)).toMatchObject({
      sandboxId: children[0].id,
    })
    expect(all.total.runningSeconds).toBeCloseTo(
      all.sandboxes.reduce((sum: number, one: { runningSeconds: number }) => sum + one.runningSeconds, 0),
      1,
    )
    for (const options of [{ headers: { accept: 'text/csv' } }, {}]) {
      const response = await server.fetch(`/v1/usage${'headers' in options ? '' : '?format=csv'}`, options)
      expect(response.headers.get('content-type')).toContain('text/csv')
      const [head = '', ...lines] = (await response.text()).trim().split(/\r?\n/)
      expect(head).toContain('runningSeconds')
      for (const line of lines) expect(line.split(',').length).toBe(head.split(',').length)
      expect(lines.some((line) => line.includes(id))).toBe(true)
    }
    const past = await server.ok('/v1/usage?from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z')
    expect(past).toMatchObject({ sandboxes: [], total: { runningSeconds: 0, cost: 0 } })
    await server.ok('/v1/sandboxes/used', { method: 'DELETE' })
  })

  test('private and shared memory are reported on request, also while frozen, without a wake', async () => {
    const { id } = await server.ok('/v1/sandboxes', { json: { idleTimeoutMs: 0, storeAfterMs: 0 } })
    const memory = async (query = '?memory=true') =>
      (await server.ok(`/v1/sandboxes/${id}/metrics${query}`)).memory
    await server.run(id, 'block = bytearray(b"x") * (128 * 2**20)')
    expect(await memory('')).toBeUndefined()
    const awake = await memory()
    expect(awake.privateBytes).toBeGreaterThan(100 * MIB)
    expect(awake.sharedBytes).toBeGreaterThan(0)
    expect(Date.parse(awake.at)).toBeGreaterThan(Date.now() - 60_000)
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'frozen' } })
    expect((await memory()).sharedBytes).toBeGreaterThan(0)
    expect((await server.ok(`/v1/sandboxes/${id}`)).tier).toBe('frozen')
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    expect(await memory()).toBeUndefined()
    expect((await server.ok(`/v1/sandboxes/${id}`)).tier).toBe('stored')
    expect((await server.call(`/v1/sandboxes/${id}/metrics?memory=maybe`)).status).toBe(400)
    await server.ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  })

  test('/metrics is what Prometheus reads, and names no tenant', async () => {
    const { id } = await server.ok('/v1/sandboxes', { json: { name: 'measured', idleTimeoutMs: 0 } })
    const response = await server.fetch('/metrics')
    expect(response.headers.get('content-type')).toMatch(/^text\/plain/)
    const text = await response.text()
    const typed = new Set<string>()
    for (const line of text.split('\n').filter((one) => one !== '')) {
      const type = /^# TYPE ([a-zA-Z_:][\w:]*) (counter|gauge|histogram|summary|untyped)$/.exec(line)
      if (type !== null) typed.add(type[1] ?? '')
      if (line.startsWith('#')) continue
      const sample =
        /^([a-zA-Z_:][\w:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*",?)*\})? (-?[\d.e+-]+|NaN|[+-]Inf)$/.exec(
          line,
        )
      expect(sample, line).not.toBeNull()
      expect(typed).toContain(
        sample?.[1]?.replace(/_(bucket|sum|count)$/, (end) => (typed.has(sample[1] ?? '') ? end : '')),
      )
    }
    expect(text).toMatch(/^dormouse_sandboxes\{[^}]*running[^}]*\} [1-9]/m)
    expect(text).not.toContain(id)
    expect(text).not.toContain('measured')
    await server.ok('/v1/sandboxes/measured', { method: 'DELETE' })
  })
})
