import { describe, expect, test } from 'vitest'
import { collect, eventually, expectWholeJournal, runPython, textOf } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'
import { startRun } from './start-run.ts'

const MIB = 1024 ** 2

export function describeKernelDeath(factory: EngineFactory): void {
  describe('a kernel that dies', () => {
    const shared = useSharedBurrow(factory)

    test.each<[string, string, number, RegExp]>([
      ['a segfault', 'import ctypes; ctypes.string_at(0)', 139, /SIGSEGV/],
      ['os._exit(3)', 'import os; os._exit(3)', 3, /exited with code 3/],
      ['os._exit(0)', 'import os; os._exit(0)', 1, /exited with code 0/],
      ['os.abort()', 'import os; os.abort()', 134, /SIGABRT/],
      ['SIGTERM', 'import os; os.kill(os.getpid(), 15)', 143, /SIGTERM/],
      ['kill -9', '!kill -9 $PPID', 137, /SIGKILL/],
    ])(
      'by %s ends its run with the reason, and only the next run reports the restart',
      async (_what, code, exitCode, how) => {
        await runPython(shared.guest, 'lost = 1')
        await shared.guest.files.write('/tmp/kept', 'kept')
        const events = await collect(shared.guest.runs.stream({ code: `print("last words")\n${code}` }))
        expectWholeJournal(events)
        expect(textOf(events, 'stdout')).toBe('last words\n')
        expect(events.find(({ type }) => type === 'error')).toMatchObject({
          name: 'KernelDied',
          message: expect.stringMatching(how),
        })
        expect(textOf(events, 'stderr')).toMatch(how)
        expect(textOf(events, 'stderr')).toMatch(/^KernelDied: .*its variables are gone\n$/m)
        expect(events.at(-1)).toMatchObject({ exitCode, contextRestarted: true })

        const next = await shared.guest.runs.run({
          code: 'print("lost" in globals(), open("/tmp/kept").read())',
        })
        expect(next).toMatchObject({
          exitCode: 0,
          stdout: 'False kept\n',
          contextRestarted: expect.stringMatching(how),
        })
        expect((await shared.guest.runs.run({ code: '1' })).contextRestarted).toBeUndefined()
      },
    )

    test('does not affect other processes and contexts', async () => {
      const { guest } = shared
      await guest.contexts.create({ context: 'other' })
      await runPython(guest, 'kept = 9', 'other')
      const processId = await guest.processes.start({ args: ['sleep', '1000'] })
      const pid = (await guest.processes.list()).find((one) => one.processId === processId)?.pid
      const popen = 'import subprocess; print(subprocess.Popen(["sleep", "1000"]).pid)'
      const child = (await runPython(guest, popen)).trim()
      expect((await guest.runs.run({ code: 'import os; os._exit(1)' })).exitCode).toBe(1)

      expect(await runPython(guest, 'print(kept)', 'other')).toBe('9\n')
      const alive = await guest.runs.run({ code: `kill -0 ${pid} ${child} && echo alive`, language: 'bash' })
      expect(alive.stdout).toBe('alive\n')
      const contexts = await guest.contexts.list()
      expect(contexts.find(({ context }) => context === 'other')?.restarts).toBe(0)
    })

    test('between runs is replaced, and the next run reports it', async () => {
      const pid = (await runPython(shared.guest, 'lost = 1; import os; print(os.getpid())')).trim()
      await shared.guest.runs.run({ code: `kill -9 ${pid}`, language: 'bash' })
      const fresh = await eventually('a fresh kernel', async () => {
        const [first] = await shared.guest.contexts.list()
        return first?.state === 'idle' && String(first.pid) !== pid && first
      })
      expect(fresh.restarts).toBeGreaterThan(0)
      const next = await shared.guest.runs.run({ code: 'print("lost" in globals())' })
      expect(next).toMatchObject({ stdout: 'False\n', contextRestarted: expect.stringMatching(/SIGKILL/) })
    })

    test('does not end queued runs: they run in a new kernel, and the first reports the restart', async () => {
      const dying = await startRun(shared.guest, { code: 'import os, time; time.sleep(0.3); os._exit(1)' })
      const waiting = [1, 2].map((n) => shared.guest.runs.run({ code: `print(${n})` }))
      expect((await collect(shared.guest.runs.events(dying))).at(-1)).toMatchObject({ exitCode: 1 })
      const [first, second] = await Promise.all(waiting)
      expect(first).toMatchObject({ stdout: '1\n', contextRestarted: expect.stringMatching(/exited/) })
      expect(second?.stdout).toBe('2\n')
      expect(second?.contextRestarted).toBeUndefined()
    })

    test('repeatedly is replaced each time', async () => {
      for (let round = 0; round < 4; round += 1) {
        expect((await shared.guest.runs.run({ code: 'import os; os._exit(5)' })).exitCode).toBe(5)
      }
      expect((await shared.guest.runs.run({ code: 'print("here")' })).stdout).toBe('here\n')
    })

    test('is not a forked child that ends or fails in a cell', async () => {
      const code =
        'import os, sys\npid = os.fork()\nif pid == 0:\n  print("child"); sys.exit(4)\n' +
        'print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))'
      expect(await runPython(shared.guest, code)).toBe('child\n4\n')
      const run = await shared.guest.runs.run({ code: 'print(pid > 0)' })
      expect(run).toMatchObject({ stdout: 'True\n' })
      expect(run.contextRestarted).toBeUndefined()
    })

    test('out of memory reports it, and affects no files, other contexts and processes', async () => {
      const { guest } = await shared.create({ limits: { memoryBytes: 256 * MIB } })
      await guest.contexts.create({ context: 'other' })
      await runPython(guest, 'kept = 3', 'other')
      await guest.files.write('/tmp/kept', 'kept')
      const processId = await guest.processes.start({ args: ['sleep', '1000'] })
      const run = await guest.runs.run({
        code: 'print("eating")\nblocks = []\nwhile True: blocks.append(bytearray(2**20))',
      })
      expect(run).toMatchObject({
        stdout: 'eating\n',
        exitCode: 137,
        error: { name: 'KernelDied', message: expect.stringMatching(/out of memory/) },
      })
      const next = await guest.runs.run({ code: 'print(open("/tmp/kept").read())' })
      expect(next).toMatchObject({ stdout: 'kept\n', contextRestarted: expect.stringMatching(/memory/) })
      expect(await runPython(guest, 'print(kept)', 'other')).toBe('3\n')
      expect((await guest.processes.list()).find((one) => one.processId === processId)?.state).toBe('running')
    })
  })
}
