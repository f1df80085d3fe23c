import { RunTimeoutError, type Sandbox } from 'dormouse'
import { beforeAll, describe, expect, test } from 'vitest'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()
let sandbox: Sandbox
beforeAll(async () => {
  sandbox = await server.create()
})

describe('commands', () => {
  test('run to their end, with an exit code that is a result', async () => {
    const heard: string[] = []
    const result = await sandbox.commands.run('echo out; echo err >&2; exit 3', {
      onStdout: (text) => heard.push(text),
    })
    expect(result).toMatchObject({ stdout: 'out\n', stderr: 'err\n', exitCode: 3 })
    expect(heard).toEqual(['out\n'])
  })

  test('take arguments without a shell, a directory, an environment and input', async () => {
    const printed = await sandbox.commands.run(['printf', '%s|', '$HOME', 'a b'])
    expect(printed.stdout).toBe('$HOME|a b|')
    const elsewhere = await sandbox.commands.run('pwd; echo $WHO; cat', {
      cwd: '/tmp',
      env: { WHO: 'me' },
      input: 'from here',
    })
    expect(elsewhere.stdout).toBe('/tmp\nme\nfrom here')
    expect((await sandbox.commands.run('true', { input: 'nobody reads this' })).exitCode).toBe(0)
  })

  test('check throws for an exit code other than 0, and for a time-out', async () => {
    const failed = await sandbox.commands.run('echo no >&2; exit 3')
    expect(() => failed.check()).toThrow(
      expect.objectContaining({ code: 'run_failed', message: 'exit code 3: no\n', result: failed }),
    )
    const late = await sandbox.commands.run('sleep 60', { timeoutMs: 200 })
    expect(() => late.check()).toThrow(RunTimeoutError)
    expect((await sandbox.commands.run('true')).check().ok).toBe(true)
  })

  test('are waited for until a time or a signal, and continue', async () => {
    const command = await sandbox.commands.start('sleep 1; echo done')
    await expect(command.wait({ timeoutMs: 100 })).rejects.toMatchObject({ code: 'timed_out' })
    const signal = AbortSignal.abort()
    await expect(command.wait({ signal })).rejects.toMatchObject({ code: 'cancelled' })
    const reading = (async () => {
      for await (const _event of command.events({ timeoutMs: 100 }));
    })()
    await expect(reading).rejects.toMatchObject({ code: 'timed_out' })
    expect(await command.wait({ timeoutMs: 60_000 })).toMatchObject({ stdout: 'done\n', exitCode: 0 })
  })

  test('run in the background, read stdin, and can be connected to again', async () => {
    const started = await sandbox.commands.start('while read line; do echo "got $line"; done', {
      stdin: true,
    })
    await started.sendStdin('one\n')
    const found = await sandbox.commands.connect(started.id)
    await found.sendStdin('two\n', { close: true })
    expect(await found.wait()).toMatchObject({ stdout: 'got one\ngot two\n', exitCode: 0 })
    expect((await sandbox.commands.list()).map(({ processId }) => processId)).toContain(started.id)
    await expect(sandbox.commands.connect(999_999)).rejects.toMatchObject({ code: 'not_found' })
  })

  test('a handle to an ended command never reaches a later process with its pid', async () => {
    const own = await server.create()
    const ended = await own.commands.start('true')
    await ended.wait()
    await own.idle({ tier: 'stored' })
    let later = await own.commands.start('sleep 1000')
    while (later.pid < ended.pid) later = await own.commands.start('sleep 1000')
    await ended.kill()
    expect((await ended.info()).state).toBe('exited')
    expect((await later.info()).state).toBe('running')
    const byPid = await own.commands.connect(later.pid)
    expect(byPid.id).toBe(later.id)
    await own.delete()
  })

  test('are killed, also a second time', async () => {
    const command = await sandbox.commands.start('sleep 1000')
    await command.kill('SIGTERM')
    expect(await command.wait()).toMatchObject({ signal: 'SIGTERM' })
    await command.kill()
  })

  test('keep the sandbox awake until they end, unless they opt out', async () => {
    const command = await sandbox.commands.start('sleep 100001')
    const quiet = await sandbox.commands.start('sleep 100002', { keepAwake: false })
    const named = async () => (await sandbox.why()).work.map(({ what }) => what)
    expect(await named()).toContain(`process ${command.pid} (sleep 100001)`)
    // A process that is seen before its program has started counts until the agent looks again.
    await expect.poll(async () => (await named()).join(), { timeout: 20_000 }).not.toContain('sleep 100002')
    for (const each of [command, quiet]) await each.kill()
  })

  test('are killed when the caller of run aborts, not when the caller of wait does', async () => {
    const controller = new AbortController()
    const running = sandbox.commands.run('echo $$; exec sleep 1000', {
      signal: controller.signal,
      onStdout: () => controller.abort(),
    })
    await expect(running).rejects.toMatchObject({ code: 'cancelled' })
    const command = await sandbox.commands.start('sleep 1000')
    await expect(command.wait({ signal: AbortSignal.timeout(100) })).rejects.toMatchObject({
      code: 'timed_out',
    })
    expect((await command.info()).state).toBe('running')
    await command.kill()
    const sleeping = (await sandbox.commands.list()).filter(({ state }) => state === 'running')
    expect(sleeping.map(({ pid }) => pid).filter((pid) => pid !== command.pid)).toEqual([])
  })
})
