import type { RunEvent } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import { collect, expectWholeJournal, runPython, textOf } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'
import { startRun } from './start-run.ts'

const DEAF =
  'print("deaf", flush=True)\nwhile True:\n  try:\n    while True: pass\n  except KeyboardInterrupt: pass'

export function describeInterrupts(factory: EngineFactory): void {
  describe('time-outs and interrupts', () => {
    const shared = useSharedBurrow(factory)

    /** Runs code and interrupts it after its first output. */
    const interrupted = async (code: string, language: 'python' | 'bash' = 'python') => {
      const events: RunEvent[] = []
      let runId = ''
      for await (const event of shared.guest.runs.stream({ code, language })) {
        events.push(event)
        if (event.type === 'start') runId = event.runId
        if (event.type === 'stdout') await shared.guest.runs.interrupt(runId)
      }
      expectWholeJournal(events)
      return events
    }

    test.each([
      ['sleeps', 'import time; time.sleep(1000)'],
      ['computes', 'while True: pass'],
      ['waits for a child', 'import subprocess; subprocess.run(["sleep", "1000"])'],
      ['waits for a shell command', '!sleep 1000'],
      ['awaits', 'import asyncio; await asyncio.sleep(1000)'],
      ['waits for a lock', 'import threading; l = threading.Lock(); l.acquire(); l.acquire()'],
      ['reads from a socket', 'import socket; a, b = socket.socketpair(); a.recv(1)'],
      ['writes without end', 'while True: print("x" * 1000)'],
    ])('a time-out raises KeyboardInterrupt in code that %s, and variables stay', async (_what, code) => {
      await runPython(shared.guest, 'kept = 5')
      const run = await shared.guest.runs.run({ code, timeoutMs: 300 })
      const error = {
        name: 'RunTimeout',
        message: 'the run was interrupted after its time-out of 0.3 s',
        traceback: expect.stringMatching(/KeyboardInterrupt[\s\S]*RunTimeout: the run was interrupted/),
      }
      expect(run).toMatchObject({ exitCode: 124, timedOut: true, error })
      expect(run.stderr).toMatch(/RunTimeout: the run was interrupted after its time-out of 0.3 s\n$/)
      expect(run.interrupted).toBeUndefined()
      expect(run.contextRestarted).toBeUndefined()
      expect(await runPython(shared.guest, 'print(kept)')).toBe('5\n')
    })

    test.each([
      ['time.sleep(1000)', 'import time\nprint("go", flush=True)\ntime.sleep(1000)'],
      ['a tight loop', 'print("go", flush=True)\nwhile True: pass'],
      ['an await', 'import asyncio\nprint("go", flush=True)\nawait asyncio.sleep(1000)'],
    ])('an interrupt raises KeyboardInterrupt in %s, with a traceback of user code', async (_what, code) => {
      const events = await interrupted(code)
      expect(events.at(-1)).toMatchObject({ type: 'exit', exitCode: 130, interrupted: true })
      expect(events.at(-1)).not.toHaveProperty('contextRestarted')
      expect(textOf(events, 'stderr')).toMatch(/KeyboardInterrupt/)
      expect(textOf(events, 'stderr')).not.toMatch(/dormouse/)
    })

    test('an interrupt ends a bash run and what it started', async () => {
      const events = await interrupted('echo go; sleep 876; echo never', 'bash')
      expect(textOf(events, 'stdout')).toBe('go\n')
      expect(events.at(-1)).toMatchObject({ exitCode: 130, interrupted: true })
      expect(await runPython(shared.guest, '!pgrep -cf "^sleep 876"')).toBe('0\n')
    })

    test('finally blocks run, and their output belongs to the run', async () => {
      const code =
        'import time\ntry:\n  print("go", flush=True); time.sleep(1000)\nfinally: print("cleaned up")'
      expect(textOf(await interrupted(code), 'stdout')).toBe('go\ncleaned up\n')
    })

    test('code that ignores the interrupt is killed, and this run and the next report it', async () => {
      await runPython(shared.guest, 'lost = 5\nimport subprocess; child = subprocess.Popen(["sleep", "765"])')
      await shared.guest.files.write('/tmp/kept', 'kept')
      const run = await shared.guest.runs.run({ code: DEAF, timeoutMs: 200 })
      expect(run).toMatchObject({
        stdout: 'deaf\n',
        exitCode: 124,
        timedOut: true,
        contextRestarted: expect.stringMatching(/restarted[\s\S]*variables are gone/),
        error: { name: 'RunTimeout', message: expect.stringMatching(/time-out[\s\S]*ignored/) },
      })
      const next = await shared.guest.runs.run({
        code: 'print("lost" in globals(), open("/tmp/kept").read())',
      })
      expect(next).toMatchObject({
        stdout: 'False kept\n',
        contextRestarted: expect.stringMatching(/ignored/),
      })
      const after = await shared.guest.runs.run({ code: '!pgrep -cf "^sleep 765"' })
      expect(after.stdout).toBe('1\n')
      expect(after.contextRestarted).toBeUndefined()
    })

    test('code that handles the interrupt of its time-out has failed, too', async () => {
      const code = 'import time\ntry: time.sleep(1000)\nexcept KeyboardInterrupt: print("handled")'
      const run = await shared.guest.runs.run({ code, timeoutMs: 300 })
      expect(run).toMatchObject({ stdout: 'handled\n', exitCode: 124, error: { name: 'RunTimeout' } })
    })

    test('queued runs begin after code that ignored its time-out was killed', async () => {
      const deaf = await startRun(shared.guest, { code: DEAF, timeoutMs: 200 })
      const waiting = shared.guest.runs.run({ code: 'print("mine")' })
      const exit = (await collect(shared.guest.runs.events(deaf))).at(-1)
      expect(exit).toMatchObject({ exitCode: 124, contextRestarted: true })
      expect(await waiting).toMatchObject({ stdout: 'mine\n', exitCode: 0 })
    })

    test('an interrupted queued run never executes, and the others do', async () => {
      await runPython(shared.guest, 'seen = []')
      const first = await startRun(shared.guest, { code: 'import time; time.sleep(0.5); seen.append(1)' })
      const second = await startRun(shared.guest, { code: 'seen.append(2)' })
      const third = await startRun(shared.guest, { code: 'seen.append(3)' })
      expect(await shared.guest.runs.interrupt(second)).toBe('cancelled')
      const events = await collect(shared.guest.runs.events(second))
      expect(events).toMatchObject([
        { seq: 0, type: 'start' },
        { seq: 1, type: 'stderr' },
        { seq: 2, type: 'error' },
        { seq: 3, type: 'exit', exitCode: 130, interrupted: true },
      ])
      for (const runId of [first, third]) {
        expect((await collect(shared.guest.runs.events(runId))).at(-1)).toMatchObject({ exitCode: 0 })
      }
      expect(await runPython(shared.guest, 'print(seen)')).toBe('[1, 3]\n')
    })

    test('a time-out counts from the start of the run, not from its queueing', async () => {
      const first = shared.guest.runs.run({ code: 'import time; time.sleep(1.5)' })
      const second = shared.guest.runs.run({ code: 'print("in time")', timeoutMs: 1000 })
      expect(await second).toMatchObject({ stdout: 'in time\n', exitCode: 0 })
      expect((await first).exitCode).toBe(0)
    })

    test('the time-out of a finished run does not affect the next run', async () => {
      await shared.guest.runs.run({ code: 'pass', timeoutMs: 200 })
      expect(await runPython(shared.guest, 'import time; time.sleep(0.5); print("whole")')).toBe('whole\n')
    })

    test('interrupting a finished run changes nothing', async () => {
      const { runId } = await shared.guest.runs.run({ code: 'kept = 8' })
      expect(await shared.guest.runs.interrupt(runId)).toBe('finished')
      expect(await runPython(shared.guest, 'import time; time.sleep(0.2); print(kept)')).toBe('8\n')
    })

    test('an interrupt at the start or end of a run never affects another run', async () => {
      for (let round = 0; round < 40; round += 1) {
        const runId = await startRun(shared.guest, { code: 'x = sum(range(2000))' })
        const state = await shared.guest.runs.interrupt(runId)
        const [exit] = (await collect(shared.guest.runs.events(runId))).slice(-1)
        expect(exit).toMatchObject({ exitCode: state === 'finished' ? 0 : 130 })
        expect(await runPython(shared.guest, 'print("untouched")')).toBe('untouched\n')
      }
    })

    test('an interrupt right after output ends code that begins to sleep, every time', async () => {
      for (let round = 0; round < 40; round += 1) {
        const events = await interrupted('import time; print("on", flush=True); time.sleep(1000)')
        expect(events).toContainEqual(expect.objectContaining({ type: 'error', name: 'KeyboardInterrupt' }))
      }
    })

    test('interrupting an unknown run is refused', async () => {
      await expect(shared.guest.runs.interrupt('run-unknown')).rejects.toMatchObject({ code: 'not_found' })
    })
  })
}
