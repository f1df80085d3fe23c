import { readFile } from 'node:fs/promises'
import type { LinuxBurrow } from '@dormouse/engine-linux'
import { describe, expect, test, vi } from 'vitest'
import type { Sandbox } from '../../packages/server/src/sandbox/sandbox.ts'
import { sendSignal } from '../send-signal.ts'
import { lines, useServer } from './harness.ts'

const server = useServer()

/** More than any call here may take, and less than the time-out of a test. */
const HANGS_AFTER_MS = 60_000
const LONG = 'import time\nprint("on", flush=True)\ntime.sleep(600)'

const burrowOf = (sandbox: Sandbox) => sandbox.burrow as LinuxBurrow
const firstOf = (sandbox: Sandbox) => burrowOf(sandbox).first.pid
async function agentOf(sandbox: Sandbox): Promise<number> {
  const first = firstOf(sandbox)
  return Number((await readFile(`/proc/${first}/task/${first}/children`, 'utf8')).split(' ')[0])
}

async function call(sandbox: Sandbox, path: string, json?: object, accept = 'application/json') {
  return fetch(`${server.url}/v1/sandboxes/${sandbox.id}${path}`, {
    ...(json !== undefined && { method: 'POST', body: JSON.stringify(json) }),
    headers: {
      authorization: `Bearer ${server.key}`,
      accept,
      ...(json !== undefined && { 'content-type': 'application/json' }),
    },
    signal: AbortSignal.timeout(HANGS_AFTER_MS),
  })
}

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any
const answer = async (response: Promise<Response>): Promise<Json> => {
  const { status } = await response
  return { status, body: await (await response).json() }
}

/** Not `expect.poll`, which tests that run at once do not have. */
const until = (holds: () => Promise<void>) => vi.waitFor(holds, { timeout: HANGS_AFTER_MS, interval: 50 })

/** A run that has begun, and whose first output has arrived. */
async function begin(sandbox: Sandbox, more: object = {}) {
  const whole = answer(call(sandbox, '/run', { code: LONG, ...more }))
  const runs = async () => (await (await call(sandbox, '/runs?limit=1')).json()) as Json
  await until(async () => expect((await runs()).items[0]).toMatchObject({ state: 'running' }))
  const { runId } = (await runs()).items[0]
  const events = async () =>
    lines<Json>(await call(sandbox, `/runs/${runId}/events`, undefined, 'application/x-ndjson'))
  const follow = async () => {
    const all: Json[] = []
    for await (const event of await events()) all.push(event)
    return all
  }
  for await (const event of await events()) if (event.type === 'stdout') break
  return { whole, follow, runId, view: async () => (await call(sandbox, `/runs/${runId}`)).json() }
}

describe.concurrent('a run whose sandbox loses its processes', () => {
  test.each(['agent', 'PID 1'])('ends as lost at once when the %s is killed', async (victim) => {
    const sandbox = await server.newSandbox()
    const { whole, follow, view } = await begin(sandbox)
    const followed = follow()
    sendSignal(victim === 'agent' ? await agentOf(sandbox) : firstOf(sandbox), 'SIGKILL')
    expect(await whole).toMatchObject({
      status: 200,
      body: {
        stdout: 'on\n',
        stderr: expect.stringMatching(/RunLost: .*\n$/),
        exitCode: -1,
        error: { name: 'RunLost' },
      },
    })
    // The next run wakes the sandbox, and is not sent to the processes that are gone.
    expect(await answer(call(sandbox, '/run', { code: 'print("back")' }))).toMatchObject({
      status: 200,
      body: { stdout: 'back\n', exitCode: 0 },
    })
    expect((await followed).slice(-3)).toMatchObject([
      { type: 'stderr' },
      { type: 'error', name: 'RunLost' },
      { type: 'exit', exitCode: -1 },
    ])
    expect(await view()).toMatchObject({ state: 'lost' })
    await sandbox.delete()
  })
})

describe.concurrent('the caller of a run with a time-out', () => {
  test('gets an answer by then when another caller puts the sandbox to standby', async () => {
    const sandbox = await server.newSandbox()
    const { whole, runId, view } = await begin(sandbox, { timeoutMs: 1_500 })
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    const { status, body } = await whole
    expect(status).toBe(504)
    expect(body.error).toMatchObject({
      code: 'run_unfinished',
      details: { runId, state: 'running', sandboxState: 'standby' },
    })
    expect(sandbox.view().state).toBe('standby')
    // Its own clock stood still: it ends by itself once it is awake, and the result can be had.
    await sandbox.resume('resume')
    await until(async () =>
      expect(await view()).toMatchObject({ state: 'finished', result: { timedOut: true } }),
    )
    await sandbox.delete()
  })

  test('gets an answer by then from an agent that is stopped, and the result when it continues', async () => {
    const sandbox = await server.newSandbox()
    const { whole, view } = await begin(sandbox, { timeoutMs: 1_500 })
    const agent = await agentOf(sandbox)
    sendSignal(agent, 'SIGSTOP')
    expect(await whole).toMatchObject({ status: 504, body: { error: { code: 'run_unfinished' } } })
    sendSignal(agent, 'SIGCONT')
    await until(async () =>
      expect(await view()).toMatchObject({ state: 'finished', result: { timedOut: true } }),
    )
    await sandbox.delete()
  })

  test('waits longer for a run that waits behind others', async () => {
    const sandbox = await server.newSandbox()
    const first = answer(call(sandbox, '/run', { code: 'import time\ntime.sleep(13)' }))
    const second = answer(call(sandbox, '/run', { code: 'print("done")', timeoutMs: 500 }))
    expect((await first).body).toMatchObject({ exitCode: 0 })
    expect((await second).body).toMatchObject({ exitCode: 0, stdout: 'done\n' })
    await sandbox.delete()
  })
})

describe.concurrent('an agent that does not answer', () => {
  test('delays no call for ever, and answers again when it continues', async () => {
    const sandbox = await server.newSandbox()
    const { whole, follow, runId, view } = await begin(sandbox)
    const followed = follow()
    const agent = await agentOf(sandbox)
    sendSignal(agent, 'SIGSTOP')
    const calls = [
      call(sandbox, '/files/stat?path=/etc/hostname'),
      call(sandbox, '/processes'),
      call(sandbox, '/processes', { command: 'true' }),
      call(sandbox, '/ports'),
      call(sandbox, '/contexts'),
      call(sandbox, '/run', { code: 'print(1)' }),
    ].map(answer)
    for (const { status, body } of [await whole, ...(await Promise.all(calls))])
      expect({ status, code: body.error?.code }).toEqual({ status: 502, code: 'agent_unreachable' })
    expect((await followed).at(-1)).toMatchObject({ type: 'failed', error: { code: 'agent_unreachable' } })
    expect(await view()).toMatchObject({ state: 'running' })
    sendSignal(agent, 'SIGCONT')
    await until(async () => expect((await call(sandbox, '/processes')).status).toBe(200))
    await call(sandbox, `/runs/${runId}/interrupt`, {})
    await until(async () => expect(await view()).toMatchObject({ state: 'finished' }))
    await sandbox.delete()
  })
})
