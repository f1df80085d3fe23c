import type { Sandbox } from 'dormouse'
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

  test('run in the background, read stdin, and can be connected to again', async () => {
    const started = await sandbox.commands.start('while read line; do echo "got $line"; done', {
      stdin: true,
    })
    await started.sendStdin('one\n')
    const found = await sandbox.commands.connect(started.pid)
    await found.sendStdin('two\n', { close: true })
    expect(await found.wait()).toMatchObject({ stdout: 'got one\ngot two\n', exitCode: 0 })
    expect((await sandbox.commands.list()).map(({ pid }) => pid)).toContain(started.pid)
    await expect(sandbox.commands.connect(999_999)).rejects.toMatchObject({ code: 'not_found' })
  })

  test('are killed, also a second time', async () => {
    const command = await sandbox.commands.start('sleep 1000')
    await command.kill('SIGTERM')
    expect(await command.wait()).toMatchObject({ signal: 'SIGTERM' })
    await command.kill()
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
      code: 'cancelled',
    })
    expect((await command.info()).state).toBe('running')
    await command.kill()
    const sleeping = (await sandbox.commands.list()).filter(({ state }) => state === 'running')
    expect(sleeping.map(({ pid }) => pid).filter((pid) => pid !== command.pid)).toEqual([])
  })
})
