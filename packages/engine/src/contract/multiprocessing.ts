import { describe, expect, test } from 'vitest'
import { runPython } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

const METHODS = ['fork', 'spawn', 'forkserver'] as const

const DEFINITIONS = `
import math, multiprocessing
from collections import namedtuple
Point = namedtuple("Point", "x y")
FACTOR = 3
class Box:
    def __init__(self, value): self.value = value
def root(x): return math.sqrt(x) * FACTOR
def f(x): return root(x)
def swap(point): return Point(point.y, point.x)
def double(box): return Box(box.value * 2)`

/** Children of multiprocessing run functions and classes that cells define. */
export function describeMultiprocessing(factory: EngineFactory): void {
  describe('multiprocessing with definitions of a run', () => {
    const shared = useSharedBurrow(factory)
    const inTime = (code: string) => shared.guest.runs.run({ code, timeoutMs: 60_000 })

    test('works with the default start method, which is fork', async () => {
      await runPython(shared.guest, DEFINITIONS)
      const code = `
print(multiprocessing.get_start_method(allow_none=True))
with multiprocessing.Pool(2) as pool: print(pool.map(f, [1, 4]))
print(multiprocessing.get_start_method())`
      expect(await inTime(code)).toMatchObject({ stderr: '', stdout: 'None\n[3.0, 6.0]\nfork\n' })
    })

    test.each(METHODS)(
      'works with an explicit %s, for functions, classes and values of classes',
      async (method) => {
        await runPython(shared.guest, DEFINITIONS)
        const code = `
with multiprocessing.get_context("${method}").Pool(2) as pool:
    print(pool.map(f, [1, 4]), pool.map(swap, [Point(1, 2)]), [box.value for box in pool.map(double, [Box(4)])])
child = multiprocessing.get_context("${method}").Process(target=f, args=(1,))
child.start(); child.join(); print(child.exitcode)`
        const stdout = '[3.0, 6.0] [Point(x=2, y=1)] [8]\n0\n'
        expect(await inTime(code)).toMatchObject({ stderr: '', stdout })
      },
    )

    test.each(METHODS)('works in a pool of %s that is older than the definition', async (method) => {
      await runPython(shared.guest, 'import multiprocessing')
      await runPython(shared.guest, `pool = multiprocessing.get_context("${method}").Pool(2)`)
      await runPython(shared.guest, 'def late(x): return x + 1')
      expect(await inTime('print(pool.map(late, [1, 2]))')).toMatchObject({ stderr: '', stdout: '[2, 3]\n' })
      await runPython(shared.guest, 'def late(x): return x * 10')
      expect(await inTime('print(pool.map(late, [1, 2]))')).toMatchObject({
        stderr: '',
        stdout: '[10, 20]\n',
      })
      await runPython(shared.guest, 'pool.terminate(); del late')
    })

    test('fails with the reason when a spawned child lacks a variable or the source', async () => {
      const code = `
import multiprocessing
table = [1, 2]
def entry(at): return table[at]
exec("def hidden(x): return x")
with multiprocessing.get_context("spawn").Pool(1) as pool:
    for function in (entry, hidden, lambda x: x):
        try: pool.map(function, [0])
        except Exception as error: print(f"{type(error).__name__}: {error}")`
      const run = await inTime(code)
      expect(run.exitCode).toBe(0)
      expect(run.stdout).toMatch(
        /^NameError: name 'table' is not defined\nRuntimeError: .*'hidden'.*'fork'.*\nPicklingError: /,
      )
    })

    test('leaves the start method to the program', async () => {
      await shared.guest.contexts.create({ context: 'chooser' })
      await runPython(shared.guest, DEFINITIONS, 'chooser')
      const code = `
multiprocessing.set_start_method("forkserver")
with multiprocessing.Pool(2) as pool: print(pool.map(f, [1, 4]), multiprocessing.get_start_method())`
      const run = await shared.guest.runs.run({ code, context: 'chooser', timeoutMs: 60_000 })
      expect(run).toMatchObject({ stderr: '', stdout: '[3.0, 6.0] forkserver\n' })
    })
  })
}
