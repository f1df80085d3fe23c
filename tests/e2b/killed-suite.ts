import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, test } from 'vitest'
import { type Client, type E2bServer, loadClient, loadInterpreter } from './e2b-server.ts'

const DOWN_MS = 1_500

/** What clients find after `kill -9` of the server in the middle of their calls. */
export function killedSuite(e2b: E2bServer): void {
  let client: Client
  beforeAll(async () => {
    client = await loadClient()
  })

  describe('sandboxes', () => {
    test('commands, code and files of a sandbox survive, and the calls in between fail', async () => {
      const { Sandbox } = await loadInterpreter()
      const sandbox = await Sandbox.create(e2b.options)
      await sandbox.runCode('x = 41')
      await sandbox.files.write('kept', 'yes')
      const running = await sandbox.commands.run(
        'echo started; while [ ! -e go ]; do sleep 0.1; done; echo done',
        {
          background: true,
        },
      )
      const cut = expect(running.wait()).rejects.toThrow()
      const started = new Promise<void>((resolve) => {
        void expect(
          sandbox.runCode('import time; print("on", flush=True); time.sleep(3); y = 1', {
            onStdout: () => resolve(),
          }),
        ).rejects.toThrow()
      })
      await started
      await killServer(e2b)
      await cut
      expect(await sandbox.isRunning()).toBe(true)
      expect((await sandbox.runCode('x + 1')).text).toBe('42')
      expect(await sandbox.files.read('kept')).toBe('yes')
      const again = await sandbox.commands.connect(running.pid)
      await sandbox.files.write('go', '')
      expect((await again.wait()).exitCode).toBe(0)
      expect((await sandbox.getInfo()).metadata).toEqual({})
      await sandbox.kill()
    })

    test('times that end while the server is down pause or kill, and traffic resumes what was paused', async () => {
      const lifecycle = { onTimeout: 'pause', autoResume: true } as const
      const paused = await client.Sandbox.create({ ...e2b.options, timeoutMs: 60_000, lifecycle })
      const killed = await client.Sandbox.create({ ...e2b.options, timeoutMs: 60_000 })
      const running = await client.Sandbox.create({ ...e2b.options, timeoutMs: 600_000 })
      await paused.setTimeout(1_000)
      await killed.setTimeout(1_000)
      await killServer(e2b, DOWN_MS)
      await expect.poll(async () => (await paused.getInfo()).state, { timeout: 10_000 }).toBe('paused')
      await expect.poll(() => killed.isRunning(), { timeout: 10_000 }).toBe(false)
      expect((await running.getInfo()).state).toBe('running')
      expect((await paused.commands.run('echo awake')).stdout).toBe('awake\n')
      expect((await paused.getInfo()).state).toBe('running')
      await Promise.all([paused.kill(), running.kill()])
    })

    test('a pause that the server did not finish can be asked for again', async () => {
      const sandbox = await client.Sandbox.create(e2b.options)
      await sandbox.files.write('kept', 'yes')
      const pausing = sandbox.pause().catch(() => undefined)
      await sleep(30)
      await killServer(e2b)
      await pausing
      if ((await sandbox.getInfo()).state === 'running') expect(await sandbox.pause()).toBe(true)
      expect((await sandbox.getInfo()).state).toBe('paused')
      await sandbox.connect()
      expect(await sandbox.files.read('kept')).toBe('yes')
      await sandbox.kill()
    })
  })
}

/** The same for builds of templates. */
export function killedBuildSuite(e2b: E2bServer): void {
  test('a build that it interrupts is an error with its reason, and the next one succeeds', async () => {
    const client = await loadClient()
    const { Template } = client
    const template = Template().fromTemplate('base').runCmd('sleep 2')
    const info = await Template.buildInBackground(template, 'interrupted', e2b.options)
    await expect
      .poll(async () => (await Template.getBuildStatus(info, e2b.options)).logEntries.length)
      .toBeGreaterThan(0)
    await killServer(e2b)
    const { status, reason } = await Template.getBuildStatus(info, e2b.options)
    expect([status, reason?.message]).toEqual(['error', 'The server ended before it was built.'])
    await Template.build(template, 'interrupted', e2b.options)
    const sandbox = await client.Sandbox.create('interrupted', e2b.options)
    await sandbox.kill()
  }, 120_000)
}

/** Kills the server, waits, and starts it again at the same address. */
async function killServer({ server }: E2bServer, downMs = 0): Promise<void> {
  const port = Number(new URL(server.url).port)
  await server.kill()
  await sleep(downMs)
  await server.begin([], { port })
}
