import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from './server-process.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

const NDJSON = 'application/x-ndjson'
const SSE = 'text/event-stream'
const at = '/v1/sandboxes/main'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start()
  await server.ok('/v1/sandboxes', { json: { name: 'main', idleTimeoutMs: 0 } })
})
afterAll(() => server?.cleanUp())

const run = (json: object, path = at) => server.ok(`${path}/run`, { json })
const stateOf = async (runId: string) => (await server.ok(`${at}/runs/${runId}`)).state

/** Begins a run and goes away after its first output. */
async function leave(json: object): Promise<string> {
  const controller = new AbortController()
  const { signal } = controller
  const response = await server.fetch(`${at}/run`, { json, headers: { accept: NDJSON }, signal })
  let text = ''
  for await (const chunk of response.body ?? []) {
    text += new TextDecoder().decode(chunk as Uint8Array)
    if (text.includes('"stdout"')) break
  }
  controller.abort()
  return JSON.parse(text.split('\n')[0] ?? '').runId
}

describe('a run', () => {
  test('in JSON has everything; an error in the code is a result', async () => {
    expect(
      await run({ code: 'import sys\nprint("out")\nprint("err", file=sys.stderr)\n1 + 1' }),
    ).toMatchObject({
      ...{ stdout: 'out\n', stderr: 'err\n', exitCode: 0, results: [{ 'text/plain': '2' }] },
      ...{ runId: expect.stringMatching(/^run-/), durationMs: expect.any(Number) },
    })
    const failed = await run({ code: '1/0' })
    expect(failed).toMatchObject({
      exitCode: 1,
      error: { name: 'ZeroDivisionError', message: 'division by zero' },
    })
    expect(await run({ code: 'echo $((6*7)); exit 3', language: 'bash' })).toMatchObject({
      stdout: '42\n',
      exitCode: 3,
    })
  })

  test('is interrupted when its time is over, and variables live on', async () => {
    await run({ code: 'kept = 7' })
    const late = await run({ code: 'import time\ntime.sleep(60)', timeoutMs: 300 })
    expect(late).toMatchObject({ timedOut: true })
    expect(late.exitCode).not.toBe(0)
    expect((await run({ code: 'print(kept)' })).stdout).toBe('7\n')
  })

  test('is interrupted on request, and a run that waits never begins', async () => {
    const long = server.ok(`${at}/run`, { json: { code: 'import time\nn = 1\ntime.sleep(60)' } })
    await expect.poll(async () => (await server.ok(`${at}/runs?limit=1`)).items[0].state).toBe('running')
    const [{ runId }] = (await server.ok(`${at}/runs?limit=1`)).items
    const waiting = server.ok(`${at}/run`, { json: { code: 'n = 2' } })
    await expect.poll(async () => (await server.ok(`${at}/runs?limit=1`)).items[0].runId).not.toBe(runId)
    const [second] = (await server.ok(`${at}/runs?limit=1`)).items
    const interrupt = (id: string) => server.ok(`${at}/runs/${id}/interrupt`, { method: 'POST' })
    expect(await interrupt(second.runId)).toEqual({ outcome: 'cancelled' })
    expect(await interrupt(runId)).toEqual({ outcome: 'interrupting' })
    expect(await long).toMatchObject({ runId, error: { name: 'KeyboardInterrupt' } })
    expect((await waiting).exitCode).not.toBe(0)
    expect((await run({ code: 'print(n)' })).stdout).toBe('1\n')
    expect(await interrupt(runId)).toEqual({ outcome: 'finished' })
  })

  test('has its code, in lists too, or the beginning of it', async () => {
    const short = await run({ code: 'print("short")' })
    const long = await run({ code: `# ${'ä'.repeat(3000)}\n1` })
    const { items } = await server.ok(`${at}/runs?limit=2`)
    expect(items).toMatchObject([
      { runId: long.runId, isCodeCut: true },
      { runId: short.runId, code: 'print("short")' },
    ])
    expect(items[0].code).toMatch(/^# ä+$/)
    expect(Buffer.byteLength(items[0].code)).toBeLessThanOrEqual(4096)
    expect((await server.ok(`${at}/runs/${short.runId}`)).code).toBe('print("short")')
  })

  test('asks a caller who answers, also across standby, and one answer counts', async () => {
    const headers = { accept: NDJSON }
    const json = { code: 'print("hello", input("who? "))', input: true }
    const response = await server.fetch(`${at}/run`, { json, headers })
    const runId = response.headers.get('x-run-id')
    const events = (async () => {
      let text = ''
      for await (const chunk of response.body ?? []) text += new TextDecoder().decode(chunk as Uint8Array)
      return text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
    })()
    const question = async () =>
      (await (await server.fetch(`${at}/runs/${runId}/events?follow=false`, { headers })).text())
        .split('\n')
        .find((line) => line.includes('"input"'))
    await expect.poll(question).toBe('{"seq":1,"type":"input","prompt":"who? "}')
    await server.ok(`${at}/standby`, { json: { tier: 'stored' } })
    const answer = (body: object) => server.call(`${at}/runs/${runId}/input`, { json: body })
    expect((await answer({ seq: 0, text: 'x' })).body.error.code).toBe('conflict')
    expect((await answer({ seq: 1, text: 5 })).body.error.code).toBe('invalid_argument')
    const both = await Promise.all([answer({ seq: 1, text: 'Ada' }), answer({ seq: 1, text: 'Ada' })])
    expect(both.map(({ status }) => status).sort()).toEqual([204, 409])
    expect((await events).map(({ type }: Json) => type)).toEqual(['start', 'input', 'stdout', 'exit'])
    expect((await events)[2].data).toBe('hello Ada\n')
    expect((await answer({ seq: 1, text: 'late' })).body.error.code).toBe('conflict')
    const bash = await server.call(`${at}/run`, { json: { code: 'read x', language: 'bash', input: true } })
    expect(bash.body.error.code).toBe('invalid_argument')
  })

  test('is completed while it is typed', async () => {
    await run({ code: 'dormice_asleep = 3' })
    const complete = (name: string, code: string) =>
      server.call(`${at}/contexts/${name}/complete`, { json: { code } })
    expect((await complete('default', 'print(dormice_')).body).toEqual({
      ...{ matches: ['dormice_asleep'], replaces: 'dormice_', more: false },
    })
    expect((await complete('nowhere', 'x')).body.error.code).toBe('not_found')
    expect((await complete('default', 'x'.repeat(70_000))).body.error.code).toBe('invalid_argument')
  })

  test('with an idempotency key is done once, and the key is for one request only', async () => {
    await run({ code: 'count = 0' })
    const again = { code: 'count += 1\nprint(count)', idempotencyKey: 'k-1' }
    const answers = await Promise.all([run(again), run(again), run(again)])
    for (const answer of answers) expect(answer).toMatchObject({ runId: answers[0].runId, stdout: '1\n' })
    expect((await run(again)).stdout).toBe('1\n')
    const other = await server.call(`${at}/run`, { json: { ...again, code: 'count += 5' } })
    expect(other.body.error.code).toBe('idempotency_mismatch')
    expect((await run({ code: 'print(count)' })).stdout).toBe('1\n')
  })
})

describe('a caller that disconnects', () => {
  const code = 'import time\nprint("on", flush=True)\nfor _ in range(15): time.sleep(0.1)\ndone = True'

  test('does not end the run', async () => {
    const runId = await leave({ code: `done = False\n${code}` })
    expect(await stateOf(runId)).toBe('running')
    await expect.poll(() => stateOf(runId), { timeout: 15_000 }).toBe('finished')
    expect(await server.ok(`${at}/runs/${runId}`)).toMatchObject({ exitCode: 0, result: { stdout: 'on\n' } })
    expect((await run({ code: 'print(done)' })).stdout).toBe('True\n')
  })

  test('ends the run if he asked for that', async () => {
    const runId = await leave({ code: `done = False\n${code}`, onDisconnect: 'interrupt' })
    await expect.poll(() => stateOf(runId), { timeout: 15_000 }).toBe('finished')
    expect(await server.ok(`${at}/runs/${runId}`)).toMatchObject({
      result: { error: { name: 'KeyboardInterrupt' } },
    })
    expect((await run({ code: 'print(done)' })).stdout).toBe('False\n')
  })
})

describe('events', () => {
  test('as SSE carry ids, continue after `Last-Event-ID`, and end with 204', async () => {
    const { runId } = await run({ code: 'for i in range(3): print(i, flush=True)' })
    const events = `${at}/runs/${runId}/events`
    const read = async (headers: Record<string, string> = {}, query = '') => {
      const response = await server.fetch(events + query, { headers: { accept: SSE, ...headers } })
      return {
        status: response.status,
        text: await response.text(),
        type: response.headers.get('content-type'),
      }
    }
    const whole = await read()
    expect(whole.type).toContain(SSE)
    const parsed = whole.text
      .split('\n\n')
      .filter((part) => part !== '')
      .map((part) => ({
        id: Number(/^id: (\d+)$/m.exec(part)?.[1]),
        data: JSON.parse(/^data: (.*)$/m.exec(part)?.[1] ?? ''),
      }))
    expect(parsed.map(({ id }) => id)).toEqual(parsed.map((_, index) => index))
    for (const { id, data } of parsed) expect(data.seq).toBe(id)
    expect(parsed.at(-1)?.data).toMatchObject({ type: 'exit', exitCode: 0 })
    const last = parsed.length - 1
    const rest = await read({ 'last-event-id': '1' }, '?after=0')
    expect(rest.text.match(/^id: (\d+)$/gm)?.[0]).toBe('id: 2')
    expect(await read({ 'last-event-id': String(last) })).toMatchObject({ status: 204, text: '' })
  })

  test('are followed across standby, each once, without waking anything', async () => {
    const started = await server.fetch(`${at}/run`, {
      json: { code: 'import time\nfor i in range(12):\n  print(i, flush=True)\n  time.sleep(0.25)' },
      headers: { accept: NDJSON },
    })
    const soFar = async () => {
      const [run] = (await server.ok(`${at}/runs?limit=1`)).items
      return (await server.fetch(`${at}/runs/${run.runId}/events?follow=false`)).text()
    }
    await expect.poll(soFar).toContain('"1\\n"')
    await server.ok(`${at}/standby`, { json: { tier: 'stored' } })
    const [{ runId }] = (await server.ok(`${at}/runs?limit=1`)).items
    const snapshot = await (await server.fetch(`${at}/runs/${runId}/events?follow=false`)).text()
    expect(snapshot).not.toContain('"exit"')
    expect((await server.ok(at)).state).toBe('standby')
    const followed = server.fetch(`${at}/runs/${runId}/events?after=3`)
    await server.ok(`${at}/resume`, { method: 'POST' })
    const lines = (await started.text())
      .trim()
      .split('\n')
      .map((line): Json => JSON.parse(line))
    expect(lines.map(({ seq }) => seq)).toEqual(lines.map((_, index) => index))
    expect(
      lines
        .filter(({ type }) => type === 'stdout')
        .map(({ data }) => data)
        .join(''),
    ).toBe(Array.from({ length: 12 }, (_, i) => `${i}\n`).join(''))
    const rest = (await (await followed).text())
      .trim()
      .split('\n')
      .map((line): Json => JSON.parse(line))
    expect(rest).toEqual(lines.slice(4))
  })
})

describe('one-shot runs', () => {
  const nothingLeft = async () => {
    const { items } = await server.ok('/v1/sandboxes')
    return (
      items.length === 1 &&
      (await server.ok('/v1/snapshots')).items.every((one: Json) => one.sandboxId === items[0].id)
    )
  }

  test('answer and leave nothing, whatever becomes of the code', async () => {
    expect(await run({ code: 'import os\nprint(os.environ["A"])', env: { A: 'b' } }, '/v1')).toMatchObject({
      stdout: 'b\n',
      exitCode: 0,
    })
    expect(await nothingLeft()).toBe(true)
    expect(await run({ code: '{}["x"]' }, '/v1')).toMatchObject({ exitCode: 1, error: { name: 'KeyError' } })
    expect(await run({ code: 'exit 4', language: 'bash' }, '/v1')).toMatchObject({ exitCode: 4 })
    expect(await run({ code: 'import time; time.sleep(60)', timeoutMs: 200 }, '/v1')).toMatchObject({
      timedOut: true,
    })
    const stream = await server.fetch('/v1/run', { json: { code: 'print(1)' }, headers: { accept: NDJSON } })
    expect((await stream.text()).trim().split('\n').at(-1)).toContain('"exit"')
    expect(await nothingLeft()).toBe(true)
  })

  test('leave nothing when the caller goes away', async () => {
    for (const accept of ['application/json', NDJSON]) {
      const controller = new AbortController()
      const json = { code: 'import time\ntime.sleep(60)' }
      const asked = server
        .fetch('/v1/run', { json, headers: { accept }, signal: controller.signal })
        .then((one) => one.text())
      asked.catch(() => {})
      await expect
        .poll(async () => (await server.ok('/v1/sandboxes')).items.length, { timeout: 10_000 })
        .toBe(2)
      await sleep(300)
      controller.abort()
      await expect.poll(nothingLeft, { timeout: 15_000 }).toBe(true)
    }
  })
})
