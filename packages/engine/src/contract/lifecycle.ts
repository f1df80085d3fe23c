import { DormouseError, newSandboxId } from '@dormouse/contracts'
import { afterEach, describe, expect, test } from 'vitest'
import type { CreateBurrow, Engine } from '../engine.ts'
import type { EngineFactory } from './engine-factory.ts'

export function describeLifecycle(factory: EngineFactory): void {
  describe('lifecycle', () => {
    let engine: Engine
    const open = async () => {
      engine = await factory.open()
      return engine
    }
    const request = (fields: Partial<CreateBurrow> = {}): CreateBurrow => ({
      sandboxId: newSandboxId(),
      template: 'python',
      ...fields,
    })

    afterEach(async () => {
      await engine[Symbol.asyncDispose]()
      await factory.dispose()
    })

    test('a created burrow answers, and destroy removes it completely', async () => {
      const burrow = await (await open()).createBurrow(request())
      const run = await burrow.guest.runs.run({ code: 'print(6 * 7)' })
      expect(run).toMatchObject({ stdout: '42\n', stderr: '', exitCode: 0 })
      expect(await factory.traces()).not.toEqual([])

      await burrow.destroy()
      expect(await factory.traces()).toEqual([])
      expect(await burrow.ended).toEqual({ reason: 'destroyed' })
      await expect(burrow.guest.runs.run({ code: '1' })).rejects.toMatchObject({ code: 'burrow_ended' })
    })

    test('destroy can be called twice, also at the same time', async () => {
      const burrow = await (await open()).createBurrow(request())
      await Promise.all([burrow.destroy(), burrow.destroy()])
      await burrow.destroy()
      expect(await factory.traces()).toEqual([])
    })

    test('destroy ends a burrow with busy processes and an active run', async () => {
      const burrow = await (await open()).createBurrow(request())
      const spin = 'for i in range(20): __import__("subprocess").Popen(["sh", "-c", "while :; do :; done"])'
      await burrow.guest.runs.run({ code: spin })
      const pending = burrow.guest.runs.run({ code: 'while True: pass' })
      pending.catch(() => {})
      await burrow.destroy()
      await expect(pending).rejects.toMatchObject({ code: 'burrow_ended' })
      expect(await factory.traces()).toEqual([])
    })

    test('burrows of one template do not share files', async () => {
      const opened = await open()
      const [first, second] = await Promise.all([
        opened.createBurrow(request()),
        opened.createBurrow(request()),
      ])
      await first.guest.files.write('/root/secret', 'mine')
      await expect(second.guest.files.stat('/root/secret')).rejects.toMatchObject({ code: 'not_found' })
    })

    test.each<[string, unknown, string]>([
      ['an unknown template', { template: 'no-such-template' }, 'template_not_found'],
      ['a template name that is a path', { template: '../python' }, 'invalid_argument'],
      ['a sandbox id that is not one', { sandboxId: 'sb-../../etc' }, 'invalid_argument'],
      ['an unknown field', { colour: 'red' }, 'invalid_argument'],
      ['an unknown limit', { limits: { gpus: 1 } }, 'invalid_argument'],
      ['too little memory', { limits: { memoryBytes: 1 } }, 'invalid_argument'],
      ['memory that is not a number', { limits: { memoryBytes: '1G' } }, 'invalid_argument'],
      ['half a byte', { limits: { memoryBytes: 1024 ** 3 + 0.5 } }, 'invalid_argument'],
      ['a negative cpu', { limits: { cpus: -1 } }, 'invalid_argument'],
      ['no pids at all', { limits: { pids: 0 } }, 'invalid_argument'],
      ['a user with a slash', { user: '../root' }, 'invalid_argument'],
      ['a user that does not exist', { user: 'nosuchuser' }, 'invalid_argument'],
      ['a NUL in the environment', { env: { A: 'b\0c' } }, 'invalid_argument'],
      ['an = in a variable name', { env: { 'A=B': 'c' } }, 'invalid_argument'],
      ['an environment that is too long', { env: { A: 'x'.repeat(100_000) } }, 'invalid_argument'],
    ])('create refuses %s and leaves nothing behind', async (_what, fields, code) => {
      const opened = await open()
      const created = opened.createBurrow(request(fields as Partial<CreateBurrow>))
      const error = await created.then(
        () => undefined,
        (reason: unknown) => reason,
      )
      expect(error).toBeInstanceOf(DormouseError)
      expect(error).toMatchObject({ code, hint: expect.stringMatching(/\w/) })
      expect(await factory.traces()).toEqual([])
    })

    test('an aborted create leaves nothing behind', async () => {
      const opened = await open()
      for (const delayMs of [0, 2, 5, 10, 20, 40]) {
        const controller = new AbortController()
        const created = opened.createBurrow(request(), controller.signal)
        setTimeout(() => controller.abort(), delayMs)
        const burrow = await created.catch(() => undefined)
        await burrow?.destroy()
        expect(await factory.traces()).toEqual([])
      }
    })

    test('added environment variables apply to existing contexts and later processes', async () => {
      const burrow = await (await open()).createBurrow(request({ user: 'user', env: { COLOUR: 'blue' } }))
      const code = 'import os; print(os.environ["COLOUR"], os.environ.get("SHAPE"), os.getuid())'
      expect((await burrow.guest.runs.run({ code })).stdout).toBe('blue None 1000\n')
      await burrow.addEnv({ SHAPE: 'round' })
      expect((await burrow.guest.runs.run({ code })).stdout).toBe('blue round 1000\n')
      const bash = await burrow.guest.runs.run({ code: 'echo $COLOUR $SHAPE', language: 'bash' })
      expect(bash.stdout).toBe('blue round\n')
    })

    test('the environment and user of a burrow apply to runs and processes', async () => {
      const burrow = await (await open()).createBurrow(request({ user: 'user', env: { COLOUR: 'blue' } }))
      const code =
        'import os, getpass; print(getpass.getuser(), os.getuid(), os.getcwd(), os.environ["COLOUR"])'
      expect((await burrow.guest.runs.run({ code })).stdout).toBe('user 1000 /home/user blue\n')
      const bash = await burrow.guest.runs.run({ code: 'echo $(whoami) $PWD $COLOUR', language: 'bash' })
      expect(bash.stdout).toBe('user /home/user blue\n')
    })

    test('a burrow ends and reports it when its agent dies', async () => {
      const burrow = await (await open()).createBurrow(request())
      const pending = burrow.guest.runs.run({ code: 'import time; time.sleep(60)' })
      pending.catch(() => {})
      await factory.killAgent(burrow.id)
      const end = await burrow.ended
      expect(end).toEqual({ reason: 'agent_ended', signal: 9 })
      await expect(pending).rejects.toMatchObject({ code: 'burrow_ended' })
      await expect(burrow.guest.runs.run({ code: '1' })).rejects.toMatchObject({ code: 'burrow_ended' })
      await burrow.destroy()
      expect(await factory.traces()).toEqual([])
    })
  })
}
