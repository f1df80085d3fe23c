import type { Sandbox } from '@dormouse/server'
import { beforeAll, describe, expect, test } from 'vitest'
import { lines, useServer } from './harness.ts'

const NDJSON = { accept: 'application/x-ndjson' }
type Event = { seq: number; type: string; data?: string; exitCode?: number; events?: number; bytes?: number }
type Process = { processId: string; pid: number; state: string; exitCode?: number }

describe('processes over HTTP', () => {
  const server = useServer()
  const start = (body: object) => server.json<Process>('/processes', { method: 'POST', body, status: 201 })
  const wait = (body: object) =>
    server.json<Record<string, unknown>>('/processes', { method: 'POST', body: { ...body, wait: true } })
  const post = (path: string, body: object) => server.call(path, { method: 'POST', body })
  const refusal = async (response: Response) => {
    const { error } = (await response.json()) as { error: { code: string } }
    return `${response.status} ${error.code}`
  }
  const eventsOf = async (path: string) => {
    const events: Event[] = []
    for await (const event of lines<Event>(await server.call(path, { headers: NDJSON }))) events.push(event)
    return events
  }

  // The server gives a process half a minute to read its stdin. The other tests run meanwhile.
  let stuck: { readonly sandbox: Sandbox; readonly answer: Promise<Response> }
  beforeAll(async () => {
    const sandbox = await server.newSandbox()
    const at = `${server.url}/v1/sandboxes/${sandbox.id}/processes`
    const headers = { authorization: `Bearer ${server.key}` }
    const started = await fetch(at, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ command: 'sleep 1000', stdin: true }),
    })
    const { processId } = (await started.json()) as Process
    const body = Buffer.alloc(1_000_000)
    const answer = fetch(`${at}/${processId}/stdin`, { method: 'POST', headers, body })
    answer.catch(() => {})
    stuck = { sandbox, answer }
  })

  test('wait collects what it wrote and how it ended', async () => {
    expect(await wait({ command: 'echo out; echo err >&2; exit 3' })).toMatchObject({
      stdout: 'out\n',
      stderr: 'err\n',
      exitCode: 3,
    })
    const args = ['sh', '-c', 'echo $0 $HOME $X; pwd; whoami', 'a b']
    expect(await wait({ args, cwd: '/tmp', env: { X: 'y' }, user: 'user' })).toMatchObject({
      stdout: 'a b /home/user y\n/tmp\nuser\n',
      exitCode: 0,
    })
    expect(await wait({ command: 'sleep 100', timeoutMs: 200 })).toMatchObject({
      exitCode: 124,
      timedOut: true,
    })
    expect(await wait({ command: 'kill -9 $$' })).toMatchObject({ exitCode: 137, signal: 'SIGKILL' })
  })

  test('in the background it is listed, looked at, followed and signalled', async () => {
    const { processId, state } = await start({
      command: 'trap "echo told; exit 5" TERM; echo ready; while :; do sleep 0.05; done',
    })
    expect(state).toBe('running')
    const { items } = await server.json<{ items: Process[] }>('/processes')
    expect(items.find((one) => one.processId === processId)).toMatchObject({ state: 'running', pty: false })
    const following = eventsOf(`/processes/${processId}/events`)
    const soFar = () => eventsOf(`/processes/${processId}/events?follow=false`)
    await expect.poll(soFar).toContainEqual(expect.objectContaining({ data: 'ready\n' }))
    expect((await post(`/processes/${processId}/signal`, { signal: 'SIGTERM' })).status).toBe(204)
    const events = await following
    const told = events.filter(({ type }) => type !== 'stderr').map(({ type, data }) => data ?? type)
    expect(told).toEqual(['start', 'ready\n', 'told\n', 'exit'])
    expect(await server.json(`/processes/${processId}`)).toMatchObject({ state: 'exited', exitCode: 5 })
    expect(await refusal(await post(`/processes/${processId}/signal`, { signal: 'SIGTERM' }))).toBe(
      '409 conflict',
    )
    expect(await eventsOf(`/processes/${processId}/events?after=1`)).toEqual(events.slice(2))
  })

  test('events stream from the start as NDJSON and as SSE', async () => {
    const body = { command: 'for i in 1 2 3; do echo $i; sleep 0.05; done' }
    const response = await server.call('/processes', { method: 'POST', body, headers: NDJSON })
    const events: Event[] = []
    for await (const event of lines<Event>(response)) events.push(event)
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_event, index) => index))
    expect(events.map(({ data }) => data ?? '').join('')).toBe('1\n2\n3\n')
    expect(events.at(-1)).toMatchObject({ type: 'exit', exitCode: 0 })
    const sse = await server.call('/processes', {
      method: 'POST',
      body,
      headers: { accept: 'text/event-stream' },
    })
    expect(await sse.text()).toMatch(/^id: 0\ndata: \{"seq":0,"type":"start".*\n\n(id: \d\ndata: .*\n\n)+$/)
  })

  test('a million lines: all of them, or the number of what was dropped; the sandbox answers meanwhile', async () => {
    const body = { command: 'seq 1 1000000' }
    const response = await server.call('/processes', { method: 'POST', body, headers: NDJSON })
    let next = 0
    let bytes = 0
    let last: Event | undefined
    for await (const event of lines<Event>(response)) {
      if (event.type === 'truncated') {
        next += (event.events ?? 0) - 1
        bytes += event.bytes ?? 0
      }
      expect(event.seq).toBe(next)
      next += 1
      bytes += event.data?.length ?? 0
      last = event
    }
    expect(last).toMatchObject({ type: 'exit', exitCode: 0 })
    expect(bytes).toBeGreaterThanOrEqual(6_888_896)
    const whole = await wait({ command: 'seq 1 1000000; echo end' })
    expect(whole['stdout']).toMatch(/^1\n2\n/)
    expect(whole['stdout']).toMatch(/end\n$/)
    expect((whole['stdout'] as string).length).toBeLessThan(5 * 1024 ** 2)
    expect(whole['truncated']).toMatchObject({ stderrBytes: 0 })
  })

  test('a reader that leaves does not end it, and comes back where it was', async () => {
    const body = { command: 'for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.15; done' }
    const gone = new AbortController()
    const response = await server.call('/processes', {
      method: 'POST',
      body,
      headers: NDJSON,
      signal: gone.signal,
    })
    const seen: Event[] = []
    let processId = ''
    for await (const event of lines<Event & { processId?: string }>(response)) {
      seen.push(event)
      processId = event.processId ?? processId
      if (seen.length === 3) break
    }
    gone.abort()
    seen.push(...(await eventsOf(`/processes/${processId}/events?after=${seen.at(-1)?.seq}`)))
    expect(seen.map(({ seq }) => seq)).toEqual(seen.map((_event, index) => index))
    expect(seen.map(({ data }) => data ?? '').join('')).toBe('1\n2\n3\n4\n5\n6\n7\n8\n')
  })

  test('followed across a standby: nothing is missed and nothing told twice', async () => {
    const { processId } = await start({ command: 'for i in $(seq 1 20); do echo $i; sleep 0.1; done' })
    const following = eventsOf(`/processes/${processId}/events`)
    const soFar = () => eventsOf(`/processes/${processId}/events?follow=false`)
    await expect.poll(soFar).toContainEqual(expect.objectContaining({ data: '3\n' }))
    await server.sandbox.standby({ tier: 'stored', cause: 'asked' })
    await server.sandbox.resume('resume')
    const events = await following
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_event, index) => index))
    expect(events.map(({ data }) => data ?? '').join('')).toBe(
      Array.from({ length: 20 }, (_, n) => `${n + 1}\n`).join(''),
    )
  })

  test('stdin streams in, in pieces or at once, and is closed when asked', async () => {
    const { processId } = await start({ command: 'sha256sum', stdin: true })
    const half = Buffer.alloc(3_000_000, 'ab')
    const stdin = (raw: BodyInit, more = '') =>
      server.json(`/processes/${processId}/stdin${more}`, { method: 'POST', raw })
    expect(await stdin(half, '?close=false')).toEqual({ bytes: 3_000_000 })
    expect(await stdin(half)).toEqual({ bytes: 3_000_000 })
    const events = await eventsOf(`/processes/${processId}/events`)
    const expected = await server.bash("head -c 6000000 < <(yes ab | tr -d '\\n') | sha256sum")
    expect(events.map(({ data }) => data ?? '').join('')).toBe(expected)
    const late = await server.call(`/processes/${processId}/stdin`, { method: 'POST', raw: 'x' })
    expect(await refusal(late)).toBe('409 conflict')
    const deaf = await start({ command: 'sleep 1' })
    const unasked = await server.call(`/processes/${deaf.processId}/stdin`, { method: 'POST', raw: 'x' })
    expect(await refusal(unasked)).toBe('409 conflict')
  })

  test.each(['', '?close=false'])('input that ends its process is no conflict (%s)', async (query) => {
    const answers = []
    for (let index = 0; index < 15; index += 1) {
      const { processId } = await start({ command: 'read line', stdin: true })
      answers.push(
        (await server.call(`/processes/${processId}/stdin${query}`, { method: 'POST', raw: 'x\n' })).status,
      )
    }
    expect(answers).toEqual(Array(15).fill(200))
  })

  test.each([
    ['neither command nor args', {}],
    ['both', { command: 'true', args: ['true'] }],
    ['no arguments', { args: [] }],
    ['an empty program', { args: [''] }],
    ['NUL', { command: 'echo a\0b' }],
    ['a lone surrogate', { command: 'echo \ud800' }],
    ['an unknown field', { command: 'true', colour: 'red' }],
    ['a negative time-out', { command: 'true', timeoutMs: -1 }],
    ['a terminal without rows', { command: 'true', pty: { cols: 80 } }],
    ['a number as environment', { command: 'true', env: { A: 5 } }],
    ['a user that is not there', { command: 'true', user: 'nobody-here' }],
  ])('%s is refused and starts nothing', async (_what, body) => {
    // Not how they are: those of earlier tests may end meanwhile.
    const pids = async () =>
      (await server.json<{ items: Process[] }>('/processes')).items.map(({ processId }) => processId)
    const before = await pids()
    expect(await refusal(await post('/processes', body))).toBe('400 invalid_argument')
    expect(await pids()).toEqual(before)
  })

  test('the pid of a running process names it too, and the pid of an ended one names nothing', async () => {
    const { processId, pid } = await start({ command: 'sleep 1000' })
    expect(await server.json(`/processes/${pid}`)).toMatchObject({ processId, pid, state: 'running' })
    expect((await post(`/processes/${pid}/signal`, { signal: 'SIGKILL' })).status).toBe(204)
    await eventsOf(`/processes/${processId}/events`)
    expect(await server.json(`/processes/${processId}`)).toMatchObject({ state: 'exited', pid })
    expect(await refusal(await server.call(`/processes/${pid}`))).toBe('404 not_found')
    const again = await post(`/processes/${pid}/signal`, { signal: 'SIGKILL' })
    expect(await refusal(again)).toBe('404 not_found')
  })

  test('what does not exist is said to be so', async () => {
    expect(await refusal(await server.call('/processes/999999'))).toBe('404 not_found')
    expect(await refusal(await server.call('/processes/999999/events'))).toBe('404 not_found')
    expect(await refusal(await post('/processes/999999/signal', { signal: 'SIGTERM' }))).toBe('404 not_found')
    expect(await refusal(await post('/processes/1/signal', { signal: 'SIGNONE' }))).toBe(
      '400 invalid_argument',
    )
    expect(await refusal(await server.call('/processes/0'))).toBe('400 invalid_argument')
    expect(await refusal(await server.call('/processes/pr-oooooooooooooooo'))).toBe('400 invalid_argument')
    expect(await refusal(await server.call('/processes/pr-2222222222222222'))).toBe('404 not_found')
    const missing = { args: ['/no/such/program'] }
    expect(await refusal(await post('/processes', missing))).toBe('404 not_found')
  })

  test('contexts are created, listed, told apart and deleted', async () => {
    const created = await server.json('/contexts', {
      method: 'POST',
      body: { name: 'second', cwd: '/tmp' },
      status: 201,
    })
    expect(created).toMatchObject({ name: 'second', user: 'root', restarts: 0 })
    const { items } = await server.json<{ items: { name: string }[] }>('/contexts')
    expect(items.map(({ name }) => name).sort()).toEqual(['default', 'second'])
    expect(await refusal(await post('/contexts', { name: 'second' }))).toBe('409 already_exists')
    expect(await refusal(await post('/contexts', { name: '../x' }))).toBe('400 invalid_argument')
    const code =
      'import threading, time\ndef late(): time.sleep(0.3); print("later", flush=True)\nthreading.Thread(target=late).start()'
    await server.sandbox.use({ cause: 'run', what: 'a test' }, (guest) =>
      guest.runs.run({ code, context: 'second' }),
    )
    await expect
      .poll(() => eventsOf('/contexts/second/output?follow=false'))
      .toMatchObject([{ type: 'stdout', data: 'later\n', between: true }])
    await server.json('/contexts/second', { method: 'DELETE', status: 204 })
    expect(await refusal(await server.call('/contexts/second', { method: 'DELETE' }))).toBe('404 not_found')
    expect(await refusal(await server.call('/contexts/second/output'))).toBe('404 not_found')
  })

  test('a process that does not read its stdin is given up and does not keep the sandbox from its standby', async () => {
    expect(await refusal(await stuck.answer)).toBe('409 conflict')
    expect((await stuck.sandbox.standby({ tier: 'stored', cause: 'asked' })).state).toBe('standby')
    await stuck.sandbox.delete()
  })
})
