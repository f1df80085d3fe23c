import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { DormouseError } from '@dormouse/contracts'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { FakeRun } from './testing/fake-sandboxes.ts'
import { type TestApp, testApp } from './testing/test-app.ts'

let http: TestApp
let id: string
beforeAll(async () => {
  http = await testApp()
  await http.app.listen({ port: 0, host: '127.0.0.1' })
})
beforeEach(async () => {
  http.reset()
  id = (await http.send('POST', '/v1/sandboxes', {})).json.id
})
afterAll(async () => {
  await http[Symbol.asyncDispose]()
})

interface Stream {
  readonly request: ClientRequest
  readonly response: IncomingMessage
  /** Reads until the end. */
  text(): Promise<string>
}

function open(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Stream> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        port: (http.app.server.address() as AddressInfo).port,
        ...{ method, path },
        headers: {
          ...http.as('run'),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
      },
      (response) => {
        const text = async () => {
          let whole = ''
          for await (const chunk of response) whole += chunk
          return whole
        }
        resolve({ request, response, text })
      },
    )
    request.on('error', reject)
    request.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

const NDJSON = { accept: 'application/x-ndjson' }
const SSE = { accept: 'text/event-stream' }
const EXIT = { type: 'exit', exitCode: 0, durationMs: 1 }
const lines = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
const latest = (): FakeRun => http.runs.started.at(-1) as FakeRun
const hello = (run: FakeRun) => {
  run.emit({ type: 'stdout', data: 'hello\n' })
  run.emit(EXIT)
}

describe('a run', () => {
  test('is JSON when nothing else is asked for', async () => {
    const answer = await http.send('POST', `/v1/sandboxes/${id}/run`, { code: '1+1' }, { accept: '*/*' })
    expect(answer.json).toMatchObject({ exitCode: 0, results: [{ 'text/plain': '2' }] })
    expect(latest().request).toEqual({ code: '1+1' })
  })

  test('is one event per line with NDJSON', async () => {
    http.runs.script = hello
    const { response, text } = await open('POST', `/v1/sandboxes/${id}/run`, { code: '1' }, NDJSON)
    expect(response.headers).toMatchObject({
      'content-type': 'application/x-ndjson',
      'x-request-id': expect.stringMatching(/^req-/),
    })
    expect(lines(await text()).map(({ seq, type }) => [seq, type])).toEqual([
      [0, 'start'],
      [1, 'stdout'],
      [2, 'exit'],
    ])
  })

  test('is one event per data with SSE, its seq as id', async () => {
    http.runs.script = hello
    const { response, text } = await open('POST', `/v1/sandboxes/${id}/run`, { code: '1' }, SSE)
    expect(response.headers['content-type']).toBe('text/event-stream')
    const blocks = (await text()).split('\n\n').filter(Boolean)
    expect(blocks[1]).toBe('id: 1\ndata: {"seq":1,"type":"stdout","data":"hello\\n"}')
    expect(blocks).toHaveLength(3)
  })

  test('arrives as it happens, not at the end', async () => {
    http.runs.script = () => {}
    const { response } = await open('POST', `/v1/sandboxes/${id}/run`, { code: '1' }, NDJSON)
    const chunks = response[Symbol.asyncIterator]()
    expect(String((await chunks.next()).value)).toContain('"start"')
    latest().emit(EXIT)
    expect(String((await chunks.next()).value)).toContain('"exit"')
  })

  test('that cannot be started is an error as usual, also when a stream was asked for', async () => {
    http.runs.refusal = new DormouseError('idempotency_mismatch', 'another request had this key')
    const { response, text } = await open(
      'POST',
      `/v1/sandboxes/${id}/run`,
      { code: '1', idempotencyKey: 'k' },
      SSE,
    )
    expect(response.statusCode).toBe(409)
    expect(JSON.parse(await text()).error.code).toBe('idempotency_mismatch')
  })

  test('a stream that fails on the way ends with the error as its last line', async () => {
    http.runs.script = () => {}
    const stream = await open('POST', `/v1/sandboxes/${id}/run`, { code: '1' }, NDJSON)
    latest().fail(new DormouseError('burrow_ended', 'gone'))
    expect(lines(await stream.text()).at(-1)).toMatchObject({
      type: 'failed',
      error: { code: 'burrow_ended' },
    })
  })

  test('a revoked key ends its streams and not the run', async () => {
    http.runs.script = () => {}
    const { key, view } = http.access.create({ name: 'soon revoked', scopes: ['run'] })
    const headers = { authorization: `Bearer ${key}`, ...NDJSON }
    const made = await http.send('POST', '/v1/sandboxes', {}, { authorization: headers.authorization })
    const stream = await open('POST', `/v1/sandboxes/${made.json.id}/run`, { code: '1' }, headers)
    http.access.revoke(view.id)
    expect(lines(await stream.text()).at(-1)).toMatchObject({
      type: 'failed',
      error: { code: 'unauthorized' },
    })
    expect(http.runs.interrupted).toEqual([])
  })
})

describe('a caller that goes away', () => {
  const leave = async (body: Record<string, unknown>, headers: Record<string, string>) => {
    http.runs.script = () => {}
    if (headers.accept === NDJSON.accept) {
      const { request } = await open('POST', `/v1/sandboxes/${id}/run`, body, headers)
      request.destroy()
      return
    }
    const { port } = http.app.server.address() as AddressInfo
    const request = httpRequest({
      port,
      method: 'POST',
      path: `/v1/sandboxes/${id}/run`,
      headers: { ...http.as('run'), 'content-type': 'application/json', ...headers },
    })
    request.on('error', () => {})
    request.end(JSON.stringify(body))
    await expect.poll(() => http.runs.started).toHaveLength(1)
    request.destroy()
  }

  test.each([
    ['NDJSON', NDJSON],
    ['JSON', { accept: 'application/json' }],
  ])('%s: the run continues', async (_name, headers) => {
    await leave({ code: '1' }, headers)
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(http.runs.interrupted).toEqual([])
  })

  test.each([
    ['NDJSON', NDJSON],
    ['JSON', { accept: 'application/json' }],
  ])('%s: the run is interrupted when that was asked for', async (_name, headers) => {
    await leave({ code: '1', onDisconnect: 'interrupt' }, headers)
    await expect.poll(() => http.runs.interrupted).toEqual([latest().runId])
  })

  test('a run that is over is not interrupted when its connection closes', async () => {
    http.runs.script = hello
    for (const headers of [NDJSON, { accept: 'application/json' }]) {
      const stream = await open(
        'POST',
        `/v1/sandboxes/${id}/run`,
        { code: '1', onDisconnect: 'interrupt' },
        { ...headers, connection: 'close' },
      )
      await stream.text()
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(http.runs.interrupted).toEqual([])
  })
})

describe('a slow reader', () => {
  test('makes the server wait instead of hold what he has not read', async () => {
    const chunk = 'x'.repeat(256 * 1024)
    http.runs.script = (run) => {
      for (let count = 0; count < 400; count += 1) run.emit({ type: 'stdout', data: chunk })
      run.emit(EXIT)
    }
    const stream = await open('POST', `/v1/sandboxes/${id}/run`, { code: '1' }, NDJSON)
    await new Promise((resolve) => setTimeout(resolve, 300))
    // 100 MB are there to be read; what was taken from the journal is what fits into the buffers of two sockets.
    expect(latest().pulled).toBeLessThan(80)
    const all = lines(await stream.text())
    expect([all.length, all.at(-1).type]).toEqual([402, 'exit'])
  })
})

describe('the events of a run', () => {
  const path = () => `/v1/sandboxes/${id}/runs/${latest().runId}/events`
  const seqs = (text: string) => lines(text).map(({ seq }) => seq)

  beforeEach(async () => {
    http.runs.script = hello
    await http.send('POST', `/v1/sandboxes/${id}/run`, { code: '1' })
  })

  test('are replayed from any point', async () => {
    expect(seqs((await http.send('GET', path())).text)).toEqual([0, 1, 2])
    expect(seqs((await http.send('GET', `${path()}?after=1`)).text)).toEqual([2])
    expect((await http.send('GET', `${path()}?after=2`)).text).toBe('')
    expect((await http.send('GET', `${path()}?after=x`)).json.error.code).toBe('invalid_argument')
  })

  test('are followed, or not', async () => {
    http.runs.script = () => {}
    void open('POST', `/v1/sandboxes/${id}/run`, { code: '2' }, NDJSON).then(({ text }) => text())
    await expect.poll(() => http.runs.started).toHaveLength(2)
    expect(seqs((await http.send('GET', `${path()}?follow=false`)).text)).toEqual([0])
    const stream = await open('GET', path())
    latest().emit(EXIT)
    expect(seqs(await stream.text())).toEqual([0, 1])
  })

  test('SSE continues after Last-Event-ID, whatever the address says, and stops a browser at the end', async () => {
    const resumed = await http.send('GET', `${path()}?after=-1`, undefined, { ...SSE, 'last-event-id': '0' })
    expect(resumed.text).toMatch(/^id: 1\n/)
    expect((await http.send('GET', path(), undefined, { ...SSE, 'last-event-id': '2' })).status).toBe(204)
    const wrong = await http.send('GET', path(), undefined, { ...SSE, 'last-event-id': 'x' })
    expect(wrong.json.error.message).toMatch(/^headers: last-event-id: /)
  })

  test('a run is listed, looked at with its result, and interrupted', async () => {
    const { runId } = latest()
    expect((await http.send('GET', `/v1/sandboxes/${id}/runs`)).json.items[0]).toMatchObject({
      runId,
      state: 'finished',
    })
    expect((await http.send('GET', `/v1/sandboxes/${id}/runs/${runId}`)).json.result.exitCode).toBe(0)
    const told = await http.send('POST', `/v1/sandboxes/${id}/runs/${runId}/interrupt`)
    expect([told.json.outcome, http.runs.interrupted]).toEqual(['interrupting', [runId]])
    expect((await http.send('GET', `/v1/sandboxes/${id}/runs/run-2222222222222222`)).json.error.code).toBe(
      'not_found',
    )
  })
})

describe('a run in a sandbox of its own', () => {
  const left = () => [...http.sandboxes.held.keys()].filter((one) => one !== id)

  test.each([
    ['JSON', {}],
    ['NDJSON', NDJSON],
    ['SSE', SSE],
  ])('%s: leaves no sandbox behind', async (_name, headers) => {
    http.runs.script = hello
    const stream = await open('POST', '/v1/run', { code: '1', env: { A: 'b' } }, headers)
    expect(await stream.text()).toMatch(/exit/)
    expect(http.runs.started).toHaveLength(1)
    expect(left()).toEqual([])
  })

  test('leaves none behind when the run cannot be started, or fails on the way', async () => {
    http.runs.refusal = new DormouseError('agent_unreachable', 'no answer')
    expect((await http.send('POST', '/v1/run', { code: '1' })).json.error.code).toBe('agent_unreachable')
    http.runs.refusal = undefined
    http.runs.script = (run) => run.fail(new DormouseError('burrow_ended', 'gone'))
    expect((await http.send('POST', '/v1/run', { code: '1' })).json.error.code).toBe('burrow_ended')
    expect((await http.send('POST', '/v1/run', { code: '1' }, NDJSON)).text).toContain('burrow_ended')
    expect(left()).toEqual([])
  })

  test('leaves none behind when the caller goes away', async () => {
    http.runs.script = () => {}
    const { request } = await open('POST', '/v1/run', { code: '1' }, NDJSON)
    expect(left()).toHaveLength(1)
    request.destroy()
    await expect.poll(() => left()).toEqual([])
  })
})
