import { randomBytes } from 'node:crypto'
import { ERROR_META } from '@dormouse/mcp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { type Answer, McpClient, textOf } from './mcp-client.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start({ idleTimeoutMs: 0 })
})
afterAll(async () => {
  await server?.cleanUp()
})

const unique = () => randomBytes(4).toString('hex')

/** Code that prints "begun", waits until a file exists, and ends. */
const waitForFile = (path: string) =>
  `import os, time\nprint("begun", flush=True)\nwhile not os.path.exists("${path}"): time.sleep(0.02)\nprint("over")\n42`

/** Starts a call; resolves when the code or command has written something. */
async function begun(
  call: (onprogress: () => void) => Promise<Answer>,
): Promise<{ answer: Promise<Answer> }> {
  return await new Promise((resolve, reject) => {
    const answer = call(() => resolve({ answer }))
    answer.catch(reject)
  })
}

const ways = {
  stdio: (name: string) => McpClient.overStdio(server, name),
  'streamable HTTP': (name: string) => McpClient.overHttp(server, { sandbox: name }),
}

describe.each(Object.entries(ways))('a long run over %s', (_way, connect) => {
  const name = `long-${unique()}`
  let mcp: McpClient
  beforeAll(async () => {
    mcp = await connect(name)
  })
  afterAll(async () => {
    await mcp?.end()
  })

  test('returns its id and its output so far, and get_run returns the rest', async () => {
    const flag = `/tmp/${unique()}`
    const started = await mcp.call('run_python', { code: waitForFile(flag), waitMs: 0 })
    expect(started.structuredContent).toMatchObject({ run: expect.stringMatching(/^run-/), sandbox: name })
    expect(['queued', 'running']).toContain(started.structuredContent.state)
    expect(started.structuredContent.exitCode).toBeUndefined()
    expect(textOf(started)).toContain('call get_run')
    const { run, lastEvent } = started.structuredContent
    await mcp.call('run_shell', { command: `touch ${flag}` })
    const ended = await mcp.call('get_run', { run })
    expect(ended.structuredContent).toMatchObject({ state: 'finished', exitCode: 0, value: '42', run })
    expect(ended.structuredContent.stdout).toBe('begun\nover\n')
    const again = await mcp.call('get_run', { run, after: ended.structuredContent.lastEvent })
    expect(again.structuredContent).toMatchObject({ state: 'finished', exitCode: 0, stdout: '' })
    expect(lastEvent).toBeLessThan(ended.structuredContent.lastEvent)
  })

  test('of a command, too, and pids are not mistaken', async () => {
    const flag = `/tmp/${unique()}`
    const command = `echo begun; until [ -e ${flag} ]; do sleep 0.02; done; echo over; exit 3`
    const started = await mcp.call('run_shell', { command, waitMs: 1 })
    const { run } = started.structuredContent
    expect(run).toMatch(/^pr-/)
    expect(started.structuredContent.state).toBe('running')
    await mcp.call('run_shell', { command: `touch ${flag}` })
    const ended = await mcp.call('get_run', { run })
    expect(ended.structuredContent).toMatchObject({ state: 'finished', exitCode: 3, stdout: 'begun\nover\n' })
    const other = await mcp.call('get_run', { run: `${run}0` })
    expect(other._meta?.[ERROR_META]).toMatchObject({ code: 'not_found' })
  })

  test('continues when its client times out, and the next call says so', async () => {
    const flag = `/tmp/${unique()}`
    const late = mcp.call('run_python', { code: waitForFile(flag) }, { timeout: 4_000 })
    await expect(late).rejects.toThrow('timed out')
    const next = await mcp.call('run_shell', { command: `touch ${flag}` })
    expect(next.structuredContent.note).toMatch(/get_run, run "run-/)
    const [, run] = /run "(run-\w+)"/.exec(next.structuredContent.note) ?? []
    const ended = await mcp.call('get_run', { run })
    expect(ended.structuredContent).toMatchObject({ state: 'finished', value: '42', stdout: 'begun\nover\n' })
  })

  test('is cancelled by cancel_run, and the variables stay', async () => {
    const code = 'import time\ncount = 0\nwhile True:\n    count += 1\n    time.sleep(0.01)'
    const { structuredContent } = await mcp.call('run_python', { code, waitMs: 0 })
    const { run } = structuredContent
    const cancelled = await mcp.call('cancel_run', { run })
    expect(cancelled.structuredContent).toEqual({ run, stopped: true })
    const ended = await mcp.call('get_run', { run })
    expect(ended.structuredContent).toMatchObject({ state: 'finished', interrupted: true })
    expect((await mcp.call('cancel_run', { run })).structuredContent).toEqual({ run, stopped: false })
    const shell = await mcp.call('run_shell', { command: 'exec sleep 1000', waitMs: 0 })
    await mcp.call('cancel_run', { run: shell.structuredContent.run })
    const killed = await mcp.call('get_run', { run: shell.structuredContent.run })
    expect(killed.structuredContent).toMatchObject({ state: 'finished', signal: 'SIGKILL' })
  })

  test('is the default of get_run', async () => {
    await mcp.call('run_python', { code: '"the last one"' })
    expect(await mcp.text('get_run')).toBe("'the last one'")
  })

  // The last one: it closes the connection.
  test('continues when the connection ends', async () => {
    const flag = `/tmp/${unique()}`
    const { answer } = await begun((onprogress) =>
      mcp.call('run_python', { code: waitForFile(flag) }, { onprogress }),
    )
    answer.catch(() => {})
    await mcp.end()
    mcp = await connect(name)
    const headers = { 'content-type': 'application/octet-stream' }
    await server.fetch(`/v1/sandboxes/${name}/files?path=${flag}`, { method: 'PUT', body: '', headers })
    const ended = await mcp.call('get_run')
    expect(ended.structuredContent).toMatchObject({ state: 'finished', value: '42', stdout: 'begun\nover\n' })
  })
})
