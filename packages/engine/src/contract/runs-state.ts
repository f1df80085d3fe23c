import { describe, expect, test } from 'vitest'
import { eventually, runPython } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

export function describeRunsState(factory: EngineFactory): void {
  describe('state between runs', () => {
    const shared = useSharedBurrow(factory)
    const run = (code: string) => runPython(shared.guest, code)

    test('variables, functions and classes stay, and objects keep their identity', async () => {
      await run('x = {"a": [1, 2]}; address = id(x)\ndef twice(n): return 2 * n\nclass Point: y = 5')
      expect(await run('x["a"].append(twice(Point.y)); print(x, id(x) == address)')).toBe(
        "{'a': [1, 2, 10]} True\n",
      )
    })

    test('the last inputs have names, and a list has all', async () => {
      await run('first = "the first"')
      for (let i = 0; i < 260; i++) await run(`n = ${i}`)
      expect(await run('print(_i, _ii, In.index(\'first = "the first"\') > 0)')).toBe(
        'n = 259 n = 258 True\n',
      )
      expect(
        await run('print(len([name for name in globals() if name[:2] == "_i" and name[2:].isdigit()]))'),
      ).toBe('256\n')
    })

    test('an import stays, with what was changed in the module', async () => {
      await run('import json as notation, decimal\ndecimal.getcontext().prec = 5')
      expect(await run('print(notation.dumps([1]), decimal.Decimal(1) / 3)')).toBe('[1] 0.33333\n')
    })

    test('an open file stays open at its position', async () => {
      await run('f = open("/tmp/open-file", "w+"); _ = f.write("first\\nsecond\\n"); _ = f.seek(0)')
      expect(await run('print(f.readline(), end="")')).toBe('first\n')
      expect(await run('print(f.readline(), end=""); print(f.closed)')).toBe('second\nFalse\n')
    })

    test('a listening socket and an accepted connection stay', async () => {
      await run(
        'import socket\nserver = socket.create_server(("127.0.0.1", 0))\n' +
          'client = socket.create_connection(server.getsockname())\nclient.sendall(b"ping")',
      )
      await run('peer, _ = server.accept(); got = peer.recv(4); peer.sendall(b"pong")')
      expect(await run('print(got, client.recv(4))')).toBe("b'ping' b'pong'\n")
    })

    test('a thread continues between runs', async () => {
      await run(
        'import threading, time\nticks = 0\ndef tick():\n  global ticks\n' +
          '  while True: ticks += 1; time.sleep(0.005)\n' +
          't = threading.Thread(target=tick, daemon=True); t.start()',
      )
      const before = Number(await run('print(ticks)'))
      await eventually('two more ticks', async () => Number(await run('print(ticks)')) > before + 1)
      expect(await run('print(t.is_alive())')).toBe('True\n')
    })

    test('a Popen child continues and can be used', async () => {
      await run('import subprocess\nchild = subprocess.Popen(["cat"], stdin=-1, stdout=-1, text=True)')
      expect(await run('print(child.poll()); child.stdin.write("hello\\n"); child.stdin.flush()')).toBe(
        'None\n',
      )
      expect(await run('print(child.stdout.readline(), end="")')).toBe('hello\n')
      expect(await run('child.stdin.close(); print(child.wait())')).toBe('0\n')
    })

    test('sys.path stays: a module in an added directory can be imported later', async () => {
      await run('import os, sys; os.makedirs("/tmp/lib"); sys.path.append("/tmp/lib")')
      await shared.guest.files.write('/tmp/lib/dormouse_probe.py', 'answer = 42\n')
      expect(await run('import dormouse_probe; print(dormouse_probe.answer)')).toBe('42\n')
    })

    test('a module in the working directory can be imported', async () => {
      await shared.guest.files.write('/tmp/here/local_probe.py', 'answer = 43\n', { parents: true })
      await run('import os; os.chdir("/tmp/here")')
      expect(await run('import local_probe; print(local_probe.answer)')).toBe('43\n')
    })

    test('the environment stays, for Python and for the children it starts', async () => {
      await run('import os; os.environ["COLOUR"] = "green"')
      expect(await run('import subprocess; print(os.environ["COLOUR"], flush=True)\n!echo $COLOUR')).toBe(
        'green\ngreen\n',
      )
    })

    test('the working directory stays, whether os.chdir or %cd changed it', async () => {
      await run('import os; os.makedirs("/tmp/deep/er"); os.chdir("/tmp/deep")')
      expect(await run('print(os.getcwd())')).toBe('/tmp/deep\n')
      await shared.guest.runs.run({ code: '%cd er' })
      expect(await run('print(os.getcwd())')).toBe('/tmp/deep/er\n')
    })

    test('objects defined in a run can be pickled and sent to worker processes', async () => {
      await run('import multiprocessing as mp\ndef square(n): return n * n')
      expect(
        await run('with mp.get_context("fork").Pool(2) as pool: print(pool.map(square, [1, 2, 3]))'),
      ).toBe('[1, 4, 9]\n')
    })
  })
}
