import type { RunEvent } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import type { Burrow } from '../engine.ts'
import { collect, expectWholeJournal, fileAppears, runPython, textOf } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

const WAIT = (path: string) => `import os, time\nwhile not os.path.exists("${path}"): time.sleep(0.01)\n`

export function describeRunsOutput(factory: EngineFactory): void {
  describe('output of runs', () => {
    const shared = useSharedBurrow(factory)
    const stream = (code: string): Promise<RunEvent[]> => collect(shared.guest.runs.stream({ code }))

    test.each([
      ['Python', 'python', `print("ready")\n${WAIT('/tmp/go-python')}print("end")`],
      ['Python without a newline', 'python', `print("ready", end="", flush=True)\n${WAIT('/tmp/go-part')}`],
      [
        'Python without a newline and a flush',
        'python',
        `print("ready", end="")\n${WAIT('/tmp/go-partial')}`,
      ],
      ['dots', 'python', `import sys\nfor dot in "ready": sys.stdout.write(dot)\n${WAIT('/tmp/go-dots')}`],
      ['bash', 'bash', 'echo ready; until [ -e /tmp/go-bash ]; do sleep 0.01; done; echo end'],
      ['a child process', 'python', '!echo ready; until [ -e /tmp/go-child ]; do sleep 0.01; done; echo end'],
    ] as const)('output of %s arrives while the run is active', async (_what, language, code) => {
      const go = /\/tmp\/go-\w+/.exec(code)?.[0] ?? ''
      const events: RunEvent[] = []
      // The code waits for a file that the test writes when the first output has arrived.
      for await (const event of shared.guest.runs.stream({ code, language })) {
        events.push(event)
        if (event.type === 'stdout' && event.data.includes('ready')) await shared.guest.files.write(go, '')
      }
      expectWholeJournal(events)
      expect(textOf(events, 'stdout')).toMatch(/^ready/)
      expect(events.at(-1)).toMatchObject({ exitCode: 0 })
    })

    test('each dot of a slow program arrives by itself, also after a sleep', async () => {
      const dots = async (burrow: Burrow) => {
        const code = 'import time\nfor _ in range(4): print(".", end=""); time.sleep(0.3)'
        return (await collect(burrow.guest.runs.stream({ code }))).filter(({ type }) => type === 'stdout')
      }
      const burrow = await shared.create()
      expect(await dots(burrow)).toHaveLength(4)
      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      const woken = shared.hold(await shared.engine.restore(snapshot.id, { sandboxId: burrow.sandboxId }))
      expect(await dots(woken)).toHaveLength(4)
    })

    test('stdout and stderr are kept apart and in order', async () => {
      const code = 'import sys\nfor i in range(50): print(i); print(-i, file=sys.stderr)'
      const events = await stream(code)
      expectWholeJournal(events)
      const lines = events.flatMap((event) =>
        event.type === 'stdout' || event.type === 'stderr' ? [`${event.type} ${event.data}`] : [],
      )
      const expected = Array.from({ length: 50 }, (_, i) => [`stdout ${i}\n`, `stderr ${-i}\n`]).flat()
      expect(lines).toEqual(expected)
    })

    test('output of print, os.write, a child and C code keeps its order', async () => {
      const code =
        'import ctypes, os, subprocess, sys\nlibc = ctypes.CDLL(None)\nfor i in range(3):\n' +
        '  print("print", i)\n  os.write(1, b"write\\n")\n  subprocess.run(["echo", "child"])\n' +
        '  libc.puts(b"puts"); libc.fflush(None)\n  sys.stdout.write("part "); sys.stdout.flush()\n' +
        '  os.system("echo system")\n'
      const round = (i: number) => `print ${i}\nwrite\nchild\nputs\npart system\n`
      expect((await shared.guest.runs.run({ code })).stdout).toBe([0, 1, 2].map(round).join(''))
    })

    test('output of C code and children to stderr arrives as stderr', async () => {
      const code =
        'import os, ctypes\nos.write(2, b"raw ")\nos.system("echo child >&2")\nctypes.CDLL(None).perror(b"c");'
      const run = await shared.guest.runs.run({ code })
      expect(run.stdout).toBe('')
      expect(run.stderr).toMatch(/^raw child\nc: .+\n$/)
    })

    test('output in C buffers arrives before exit, in its own run', async () => {
      const events = await stream('import ctypes; ctypes.CDLL(None).printf(b"buffered");')
      expectWholeJournal(events)
      expect(textOf(events, 'stdout')).toBe('buffered')
      expect((await shared.guest.runs.run({ code: 'print("next")' })).stdout).toBe('next\n')
    })

    test('text without a final newline arrives completely', async () => {
      expect((await shared.guest.runs.run({ code: 'print("no newline", end="")' })).stdout).toBe('no newline')
    })

    test('invalid UTF-8 becomes U+FFFD, and the rest is unchanged', async () => {
      const run = await shared.guest.runs.run({
        code: 'import os; os.write(1, b"a\\xffb caf\\xc3\\xa9 \\xe2\\x82\\n"); os.write(2, b"\\x80\\n");',
      })
      expect(run.stdout).toBe('a\ufffdb café \ufffd\n')
      expect(run.stderr).toBe('\ufffd\n')
    })

    test('a character written byte by byte arrives in one event', async () => {
      const code = 'import os, time\nfor b in "€🐭".encode(): os.write(1, bytes([b])); time.sleep(0.02)'
      const pieces = (await stream(code)).flatMap((event) => (event.type === 'stdout' ? [event.data] : []))
      expect(pieces.join('')).toBe('€🐭')
      for (const piece of pieces) expect(['€', '🐭', '€🐭']).toContain(piece)
    })

    test('control characters, NUL and lone surrogates arrive', async () => {
      const run = await shared.guest.runs.run({ code: 'print("\\x1b[1m\\0\\r\\ud800")' })
      expect(run.stdout).toBe('\x1b[1m\0\r\\ud800\n')
    })

    test('several threads writing at once lose nothing', async () => {
      const code =
        'import threading\ndef say(n):\n  for i in range(500): print(f"{n}:{i}\\n", end="")\n' +
        'ts = [threading.Thread(target=say, args=(n,)) for n in range(4)]\n' +
        'for t in ts: t.start()\nfor t in ts: t.join()'
      const lines = (await runPython(shared.guest, code)).trimEnd().split('\n')
      expect(new Set(lines).size).toBe(2000)
      expect(lines).toHaveLength(2000)
    })
  })

  describe('output between runs', () => {
    const shared = useSharedBurrow(factory)
    const between = async (after = -1) => collect(shared.guest.contexts.output('default', { after }))

    test('output of a thread between runs is kept and marked, and is not part of the next run', async () => {
      const code =
        `import threading, sys\ndef late():\n  ${WAIT('/tmp/go').trim().replaceAll('\n', '\n  ')}\n` +
        '  print("late out"); print("late err", file=sys.stderr); open("/tmp/said", "w").close()\n' +
        'threading.Thread(target=late).start(); print("started")'
      expect(await runPython(shared.guest, code)).toBe('started\n')
      await shared.guest.files.write('/tmp/go', '')
      await fileAppears(shared.guest, '/tmp/said')
      expect(await runPython(shared.guest, 'print("next")')).toBe('next\n')

      const events = await between()
      expect(events).toMatchObject([
        { seq: 0, type: 'stdout', data: 'late out\n', between: true },
        { seq: 1, type: 'stderr', data: 'late err\n', between: true },
      ])
      expect(await between(0)).toEqual(events.slice(1))
      expect(await between(1)).toEqual([])
    })

    test('output of a child after its run is kept and marked', async () => {
      const child = 'until [ -e /tmp/go-late ]; do sleep 0.01; done; echo orphan; touch /tmp/said-late'
      await runPython(shared.guest, `import subprocess; p = subprocess.Popen(["sh", "-c", "${child}"])`)
      await shared.guest.files.write('/tmp/go-late', '')
      await fileAppears(shared.guest, '/tmp/said-late')
      expect(await runPython(shared.guest, 'print("next")')).toBe('next\n')
      expect(textOf(await between(1), 'stdout')).toBe('orphan\n')
    })

    test('an unfinished line or character is not joined to the output of the next run', async () => {
      const code =
        `import os, threading\ndef half():\n  ${WAIT('/tmp/go-half').trim().replaceAll('\n', '\n  ')}\n` +
        '  os.write(1, b"half \\xc3"); open("/tmp/said-half", "w").close()\nthreading.Thread(target=half).start()'
      await runPython(shared.guest, code)
      await shared.guest.files.write('/tmp/go-half', '')
      await fileAppears(shared.guest, '/tmp/said-half')
      const next = await shared.guest.runs.run({ code: 'import os; os.write(1, b"\\xa9 other\\n");' })
      expect(next.stdout).toBe('\ufffd other\n')
      expect(textOf(await between(2), 'stdout')).toBe('half \ufffd')
    })

    test('output of an endlessly writing thread never follows the exit of a run', async () => {
      await runPython(
        shared.guest,
        'import itertools, threading, time\nstop = False\ndef noise():\n' +
          '  for i in itertools.count():\n    if stop: return\n    print("noise", i); time.sleep(0.0005)\n' +
          'threading.Thread(target=noise).start()',
      )
      try {
        for (let round = 0; round < 30; round += 1) {
          // Not `print`, which writes the newline separately: the thread could write in between.
          const code = 'import sys; sys.stdout.write("mine\\n");'
          const events = await collect(shared.guest.runs.stream({ code }))
          expectWholeJournal(events)
          expect(textOf(events, 'stdout')).toContain('mine\n')
        }
      } finally {
        await shared.guest.runs.run({ code: 'stop = True' })
      }
    })

    test('followed output arrives as it is written', async () => {
      await runPython(
        shared.guest,
        'import threading, time\nthreading.Timer(0.2, lambda: print("timer")).start()',
      )
      const controller = new AbortController()
      const seen: string[] = []
      const follow = async () => {
        const source = shared.guest.contexts.output('default', { follow: true, signal: controller.signal })
        for await (const event of source) {
          if (event.type === 'stdout') seen.push(event.data)
          if (seen.includes('timer\n')) controller.abort()
        }
      }
      await expect(follow()).rejects.toMatchObject({ code: 'cancelled' })
      expect(seen).toContain('timer\n')
    })
  })
}
