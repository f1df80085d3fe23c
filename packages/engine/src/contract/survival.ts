import { describe, expect, test } from 'vitest'
import type { Guest } from '../guest.ts'
import { collect, collectText, eventually, runPython, textOf } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

export function describeSurvival(factory: EngineFactory): void {
  describe('a burrow stays reachable', () => {
    const shared = useSharedBurrow(factory)

    const expectAnswers = async (guest: Guest) => {
      // A run in a dying kernel reports its death; the next run gets a new kernel.
      await eventually(
        'a run',
        async () => (await guest.runs.run({ code: 'print(6 * 7)' })).stdout === '42\n',
      )
      expect((await guest.runs.run({ code: 'echo hi', language: 'bash' })).stdout).toBe('hi\n')
      await guest.files.write('/root/probe', 'kept')
      expect(await collectText(guest.files.read('/root/probe'))).toBe('kept')
      expect((await guest.info()).contexts).toBe(1)
    }

    test.each([
      ['pkill python', 'pkill -9 python'],
      ['pkill by command line', 'pkill -9 -f dormouse; pkill -9 -f python'],
      ['pkill by name', 'pkill -9 dormouse'],
      ['killall5', 'for p in $(ps axo pid=); do [ $p = $$ ] || kill -9 $p; done'],
      ['kill -9 -1', 'kill -9 -1'],
      ['kill of the first pids', 'kill -9 1 2; kill -TERM 1 2; kill -STOP 1 2'],
      ['rm -rf /run/* /tmp/*', 'rm -rf /run/* /run/.[!.]* /tmp/* /tmp/.[!.]*'],
      ['an empty PATH and HOME', 'rm -rf /root; mkdir /root'],
    ])('after %s as root', async (_what, code) => {
      await shared.guest.runs.run({ code: 'x = 1' })
      await shared.guest.runs.run({ code, language: 'bash' })
      await expectAnswers(shared.guest)
    })

    test.each([
      ['os.kill(-1, 9)', 'import os; os.kill(-1, 9)'],
      ['closing every descriptor', 'import os; os.closerange(3, 1024)'],
      [
        'garbage on every socket it holds',
        'import os, stat\nfor fd in range(3, 1024):\n  try:\n' +
          '    if stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, b"\\xff" * 100)\n  except OSError: pass',
      ],
      ['a message too long for the agent', 'import sys; sys.stdout.write("\\0" * 3_000_000);'],
      [
        'all descriptors in use',
        'import os\nfds = []\ntry:\n  while True: fds.append(os.dup(0))\nexcept OSError: pass',
      ],
      ['a chroot', 'import os; os.mkdir("/tmp/jail"); os.chroot("/tmp/jail")'],
    ])('after Python code that does %s', async (_what, code) => {
      await shared.guest.runs.run({ code, timeoutMs: 20_000 })
      await shared.guest.contexts.delete('default')
      await expectAnswers(shared.guest)
    })

    test('after rm -rf / as root: state can be saved, and a dead kernel reports what is missing', async () => {
      const { guest } = await shared.create()
      await runPython(guest, 'kept = [1, 2, 3]')
      await guest.runs.run({ code: 'rm -rf --no-preserve-root /', language: 'bash' })
      expect(await runPython(guest, 'open("/saved", "w").write(repr(kept)); print(kept)')).toBe('[1, 2, 3]\n')
      expect(await collectText(guest.files.read('/saved'))).toBe('[1, 2, 3]')
      // The tools have a bash of their own.
      expect(await guest.runs.run({ code: 'echo ok', language: 'bash' })).toMatchObject({ stdout: 'ok\n' })
      await guest.runs.run({ code: 'import os; os._exit(1)' })
      const next = await guest.runs.run({ code: '1' })
      expect(next.error).toMatchObject({
        name: 'KernelDied',
        message: expect.stringMatching(/python3: No such file/),
      })
      expect(await collectText(guest.files.read('/saved'))).toBe('[1, 2, 3]')
    })

    test('while a stopped kernel holds a run, until the time-out ends it', async () => {
      const run = await shared.guest.runs.run({ code: 'import os; os.kill(os.getpid(), 19)', timeoutMs: 300 })
      expect(run).toMatchObject({ exitCode: 124, timedOut: true, contextRestarted: expect.any(String) })
      await expectAnswers(shared.guest)
    })

    test('while all pids are in use: files can be read, and everything works afterwards', async () => {
      const { guest } = await shared.create({ limits: { pids: 60 } })
      const fill =
        'import subprocess\nchildren = []\ntry:\n  while True: children.append(subprocess.Popen(["sleep", "1000"]))\n' +
        'except OSError: print(len(children) > 30)'
      expect(await runPython(guest, fill)).toBe('True\n')
      expect(await collectText(guest.files.read('/etc/hostname'))).toMatch(/\w/)
      const refused = await guest.runs.run({ code: 'echo', language: 'bash' })
      expect(refused).toMatchObject({ exitCode: 127, error: { name: 'BashFailed' } })
      await expect(guest.processes.start({ args: ['true'] })).rejects.toMatchObject({ code: 'limit_reached' })
      await runPython(guest, 'for c in children: c.kill()\nfor c in children: c.wait();')
      await expectAnswers(guest)
    })

    test('during hundreds of concurrent calls, each of which gets its own answer', async () => {
      const { guest } = shared
      await guest.contexts.create({ context: 'second' })
      const calls = Array.from({ length: 60 }, (_, n) => n).flatMap((n) => [
        guest.runs.run({ code: `print(${n})` }).then(({ stdout }) => expect(stdout).toBe(`${n}\n`)),
        guest.runs
          .run({ code: `print(-${n})`, context: 'second' })
          .then(({ stdout }) => expect(stdout).toBe(n === 0 ? '0\n' : `-${n}\n`)),
        collect(guest.processes.stream({ args: ['echo', String(n)] })).then((events) =>
          expect(textOf(events, 'stdout')).toBe(`${n}\n`),
        ),
        guest.files
          .write(`/tmp/parallel-${n}`, `file ${n}`)
          .then(() => collectText(guest.files.read(`/tmp/parallel-${n}`)))
          .then((text) => expect(text).toBe(`file ${n}`)),
        guest.info(),
      ])
      await Promise.all(calls)
      await guest.contexts.delete('second')
      const idle = await eventually('idle', async () => {
        const info = await guest.info()
        return info.runs === 0 && info.processes === 0 && info
      })
      expect(idle.contexts).toBe(1)
    })
  })
}
