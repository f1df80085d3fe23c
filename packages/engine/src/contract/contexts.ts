import { describe, expect, test } from 'vitest'
import { collect, eventually, runPython } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'
import { startRun } from './start-run.ts'

const WHO = 'import getpass, os; print(getpass.getuser(), os.getuid(), os.getcwd(), os.environ["HOME"])'

export function describeContexts(factory: EngineFactory): void {
  describe('contexts', () => {
    const shared = useSharedBurrow(factory)
    const names = async () => (await shared.guest.contexts.list()).map(({ context }) => context)

    test('Python and bash run as root, in the home of root, without a user', async () => {
      expect(await runPython(shared.guest, WHO)).toBe('root 0 /root /root\n')
      const bash = await shared.guest.runs.run({ code: 'whoami; pwd', language: 'bash' })
      expect(bash.stdout).toBe('root\n/root\n')
      expect(await shared.guest.contexts.list()).toMatchObject([{ context: 'default', user: 'root' }])
    })

    test('runs of one context execute one at a time, in order, in both languages', async () => {
      const step = (n: number) => `seen = open("/tmp/order", "a"); print(${n}, file=seen); seen.close()`
      const runIds: string[] = []
      for (let n = 0; n < 20; n += 1) {
        const isBash = n % 5 === 4
        runIds.push(
          await startRun(
            shared.guest,
            isBash ? { code: `echo ${n} >> /tmp/order`, language: 'bash' } : { code: step(n) },
          ),
        )
      }
      for (const runId of runIds) await collect(shared.guest.runs.events(runId))
      expect(
        await runPython(
          shared.guest,
          'print(open("/tmp/order").read().split() == [str(i) for i in range(20)])',
        ),
      ).toBe('True\n')
    })

    test('a run starts only when the previous one has ended', async () => {
      const code = 'import time\nbegun = time.monotonic(); time.sleep(0.05); print(begun, time.monotonic())'
      const runs = await Promise.all(Array.from({ length: 6 }, () => shared.guest.runs.run({ code })))
      const spans = runs.map(({ stdout }) => stdout.split(' ').map(Number)).sort(([a], [b]) => a! - b!)
      for (const [index, [begun]] of spans.entries()) {
        if (index > 0) expect(begun).toBeGreaterThan(spans[index - 1]![1]!)
      }
    })

    test('contexts run concurrently, with separate variables', async () => {
      await shared.guest.contexts.create({ context: 'left' })
      await shared.guest.contexts.create({ context: 'right' })
      // Each waits for a file of the other: sequentially they would never end.
      const meet = (mine: string, other: string) =>
        `import os, time\nname = "${mine}"\nopen("/tmp/${mine}", "w").close()\n` +
        `while not os.path.exists("/tmp/${other}"): time.sleep(0.01)\nprint(name)`
      const [left, right] = await Promise.all([
        runPython(shared.guest, meet('left', 'right'), 'left'),
        runPython(shared.guest, meet('right', 'left'), 'right'),
      ])
      expect([left, right]).toEqual(['left\n', 'right\n'])
      expect(await runPython(shared.guest, 'print("name" in globals())')).toBe('False\n')
      for (const context of ['left', 'right']) await shared.guest.contexts.delete(context)
    })

    test('a context has its user, directory and environment', async () => {
      const created = await shared.guest.contexts.create({
        context: 'of-user',
        user: 'user',
        cwd: '/tmp',
        env: { COLOUR: 'red' },
      })
      expect(created).toMatchObject({ context: 'of-user', user: 'user', restarts: 0 })
      expect(await runPython(shared.guest, WHO, 'of-user')).toBe('user 1000 /tmp /home/user\n')
      expect(await runPython(shared.guest, 'print(os.environ["COLOUR"])', 'of-user')).toBe('red\n')
      const denied = await shared.guest.runs.run({ code: 'open("/etc/shadow")', context: 'of-user' })
      expect(denied.error?.name).toBe('PermissionError')
      expect(await runPython(shared.guest, 'import os; print("COLOUR" in os.environ)')).toBe('False\n')
      await shared.guest.contexts.delete('of-user')
    })

    test('a context of user starts in the home of user', async () => {
      await shared.guest.contexts.create({ context: 'at-home', user: 'user' })
      expect(await runPython(shared.guest, WHO, 'at-home')).toBe('user 1000 /home/user /home/user\n')
      await shared.guest.contexts.delete('at-home')
    })

    test('a context of a user without a home starts in /', async () => {
      await shared.guest.contexts.create({ context: 'homeless', user: 'nobody' })
      expect(await runPython(shared.guest, 'import os; print(os.getcwd(), os.getuid())', 'homeless')).toBe(
        '/ 65534\n',
      )
      await shared.guest.contexts.delete('homeless')
    })

    test('the list shows each context, its kernel and whether it is busy', async () => {
      await shared.guest.contexts.create({ context: 'listed' })
      const runId = await startRun(shared.guest, { code: 'while True: pass', context: 'listed' })
      const busy = await eventually('a busy context', async () => {
        const found = (await shared.guest.contexts.list()).find(({ context }) => context === 'listed')
        return found?.state === 'busy' && found
      })
      expect(busy.pid).toBeGreaterThan(0)
      await shared.guest.runs.interrupt(runId)
      await collect(shared.guest.runs.events(runId))
      const idle = (await shared.guest.contexts.list()).find(({ context }) => context === 'listed')
      expect(idle).toMatchObject({ state: 'idle', pid: busy.pid })
      await shared.guest.contexts.delete('listed')
    })

    test('deleting a context ends its kernel, and its runs end as interrupted', async () => {
      await shared.guest.contexts.create({ context: 'doomed' })
      const pid = (await runPython(shared.guest, 'import os; print(os.getpid())', 'doomed')).trim()
      const running = await startRun(shared.guest, { code: 'while True: pass', context: 'doomed' })
      const waiting = await startRun(shared.guest, { code: 'print("never")', context: 'doomed' })
      await shared.guest.contexts.delete('doomed')
      for (const runId of [running, waiting]) {
        const events = await collect(shared.guest.runs.events(runId))
        expect(events.at(-1)).toMatchObject({ type: 'exit', exitCode: 130, interrupted: true })
        expect(events.some(({ type }) => type === 'stdout')).toBe(false)
      }
      expect(await names()).not.toContain('doomed')
      await eventually('the end of the kernel', async () => {
        const gone = await shared.guest.runs.run({ code: `kill -0 ${pid}`, language: 'bash' })
        return gone.exitCode === 1
      })
    })

    test('a run creates the context that it names, also after that context was deleted', async () => {
      await runPython(shared.guest, 'x = 1', 'again')
      expect(await runPython(shared.guest, 'print(x)', 'again')).toBe('1\n')
      await shared.guest.contexts.delete('again')
      expect(await runPython(shared.guest, 'print("x" in globals())', 'again')).toBe('False\n')
      await shared.guest.contexts.delete('again')
    })

    test('deleting the default context replaces it with a new one', async () => {
      await runPython(shared.guest, 'x = 1')
      await shared.guest.contexts.delete('default')
      expect(await names()).toContain('default')
      expect(await runPython(shared.guest, 'print("x" in globals())')).toBe('False\n')
    })

    test.each<[string, object, string]>([
      ['a name that is taken', { context: 'default' }, 'already_exists'],
      ['an empty name', { context: '' }, 'invalid_argument'],
      ['a name with a slash', { context: 'a/b' }, 'invalid_argument'],
      ['a name with a space', { context: 'a b' }, 'invalid_argument'],
      ['a name that is too long', { context: 'x'.repeat(65) }, 'invalid_argument'],
      ['a user that does not exist', { context: 'new', user: 'nosuchuser' }, 'invalid_argument'],
      ['a user with a slash', { context: 'new', user: '../root' }, 'invalid_argument'],
      ['a directory that does not exist', { context: 'new', cwd: '/no/such/place' }, 'not_found'],
      ['a directory that is a file', { context: 'new', cwd: '/etc/passwd' }, 'not_a_directory'],
      [
        'a directory the user may not enter',
        { context: 'new', cwd: '/root', user: 'user' },
        'permission_denied',
      ],
      ['a variable name with =', { context: 'new', env: { 'A=B': 'c' } }, 'invalid_argument'],
    ])('create refuses %s and adds nothing', async (_what, fields, code) => {
      const before = await names()
      const refused = shared.guest.contexts.create(fields as { context: string })
      await expect(refused).rejects.toMatchObject({ code })
      expect(await names()).toEqual(before)
    })

    test('a context above the limit is refused, and the existing ones work', async () => {
      const made: string[] = []
      const fill = async () => {
        for (let n = 0; n < 40; n += 1) {
          await shared.guest.contexts.create({ context: `c${n}` })
          made.push(`c${n}`)
        }
      }
      await expect(fill()).rejects.toMatchObject({ code: 'limit_reached' })
      expect(await runPython(shared.guest, 'print("fine")')).toBe('fine\n')
      for (const context of made) await shared.guest.contexts.delete(context)
    })

    test('deleting and following an unknown context is refused', async () => {
      const { guest } = shared
      await expect(guest.contexts.delete('nobody')).rejects.toMatchObject({ code: 'not_found' })
      await expect(collect(guest.contexts.output('nobody'))).rejects.toMatchObject({ code: 'not_found' })
    })
  })
}
