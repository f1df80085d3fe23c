import { describe, expect, test } from 'vitest'
import type { ReadRows } from '../guest.ts'
import { collect, runPython } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'
import { startRun } from './start-run.ts'

/** Every way in which Python code could notice that it is looked at. Prints what was called. */
const WATCHFUL = `
import datetime, sys
import numpy as np, pandas as pd
seen = []
class Meta(type):
    def __getattribute__(cls, name):
        seen.append("meta " + name); return super().__getattribute__(name)
    def __eq__(cls, other): seen.append("meta eq"); return False
    def __hash__(cls): seen.append("meta hash"); return 1
class Watchful(metaclass=Meta):
    def __getattr__(self, name): seen.append("getattr " + name); raise AttributeError(name)
    def __repr__(self): seen.append("repr"); return "?"
    __str__ = __repr__
    def __len__(self): seen.append("len"); return 3
    def __iter__(self): seen.append("iter"); return iter(())
    def __sizeof__(self): seen.append("sizeof"); return 1
    def __eq__(self, other): seen.append("eq"); return True
    def __lt__(self, other): seen.append("lt"); return True
    def __hash__(self): return 1
    @property
    def __class__(self): seen.append("class"); return int
class Listed(list):
    def __len__(self): seen.append("len"); return 3
    def __iter__(self): seen.append("iter"); return iter(())
    def __getitem__(self, at): seen.append("getitem"); return 1
    def __sizeof__(self): seen.append("sizeof"); return 1
    def __repr__(self): seen.append("repr"); return "?"
class Zone(datetime.tzinfo):
    def utcoffset(self, when): seen.append("zone"); return datetime.timedelta(0)
watchful, listed, inside = Watchful(), Listed([1, 2]), [Watchful()]
when = datetime.datetime(2020, 1, 1, tzinfo=Zone())
frame = pd.DataFrame({"n": [3, 1, 2], "o": [Watchful(), "b", None]})
objects = np.array([None, None], dtype=object); objects[0] = Watchful()
seen.clear()
`

export function describeVariables(factory: EngineFactory): void {
  describe('variables', () => {
    const shared = useSharedBurrow(factory)
    const listed = async (context = 'default') =>
      (await shared.guest.variables.list()).find((one) => one.context === context)
    const variable = async (name: string) => (await listed())?.variables.find((one) => one.name === name)
    const rows = (name: string, options: Partial<ReadRows> = {}) =>
      shared.guest.variables.rows({ context: 'default', name, ...options })

    test('have a type, a shape, a size and a preview', async () => {
      const code =
        'import math\nx = 42; words = ["a", "b"]; _hidden = 1\ndef f(): pass\nclass C: pass\nc = C()'
      await runPython(shared.guest, code)
      const { variables } = (await listed()) ?? { variables: [] }
      expect(variables.map(({ name }) => name)).toEqual(['x', 'words', 'f', 'C', 'c'])
      expect(variables).toMatchObject([
        { type: 'int', preview: '42', bytes: 28 },
        { type: 'list', preview: "['a', 'b']", shape: [2], opens: 'table' },
        { type: 'function', preview: 'function f' },
        { type: 'type', preview: 'class C' },
        { type: 'C', preview: '<C>' },
      ])
    })

    test('are looked at without running code of theirs', async () => {
      await runPython(shared.guest, WATCHFUL)
      expect(await variable('watchful')).toEqual({
        name: 'watchful',
        type: 'Watchful',
        preview: '<Watchful>',
      })
      expect(await variable('listed')).toMatchObject({ preview: 'Listed([1, 2])', shape: [2] })
      for (const name of ['watchful', 'listed', 'inside', 'when', 'frame', 'objects']) {
        await rows(name)
        await rows(name, { sort: 0 })
        await rows(name, { sort: 1, filters: [[0, 'a']] })
      }
      expect((await rows('frame', { sort: 1 })).table?.rows.map(({ cells }) => cells[1])).toEqual([
        'b',
        '<Watchful>',
        null,
      ])
      expect(await runPython(shared.guest, 'print(seen)')).toBe('[]\n')
    })

    test('a frame is read in windows, sorted and filtered', async () => {
      const code =
        'big = pd.DataFrame({"n": np.arange(100_000), "s": ["even" if i % 2 == 0 else "odd" for i in range(100_000)]})\nbig.loc[5, "s"] = None'
      await runPython(shared.guest, `import numpy as np, pandas as pd\n${code}`)
      expect(await variable('big')).toMatchObject({ type: 'DataFrame', shape: [100_000, 2], opens: 'table' })
      const { table } = await rows('big', { offset: 50_000, limit: 2 })
      expect(table).toEqual({
        columns: [
          { name: 'n', type: 'int64' },
          { name: 's', type: 'object' },
        ],
        rows: [
          { label: '50000', cells: ['50000', 'even'] },
          { label: '50001', cells: ['50001', 'odd'] },
        ],
        rowCount: 100_000,
        matchCount: 100_000,
        columnCount: 2,
      })
      const sorted = await rows('big', { sort: 0, descending: true, limit: 1, filters: [[1, 'EVEN']] })
      expect(sorted.table).toMatchObject({ matchCount: 50_000, rows: [{ label: '99998' }] })
      const compared = await rows('big', { filters: [[0, '>=99999']], columnOffset: 1, columns: 1 })
      expect(compared.table).toMatchObject({ matchCount: 1, rows: [{ cells: ['odd'] }] })
      const last = await rows('big', { sort: 1, descending: true, offset: 99_999 })
      expect(last.table?.rows).toEqual([{ label: '5', cells: ['5', null] }])
      await expect(rows('big', { limit: 500, columns: 100 })).rejects.toMatchObject({
        code: 'invalid_argument',
      })
      await expect(rows('none')).rejects.toMatchObject({ code: 'not_found' })
    })

    test('arrays and images have a picture, texts their text', async () => {
      const code = `import numpy as np
from PIL import Image
pixels = np.zeros((1024, 64, 3), "uint8"); grid = np.arange(12).reshape(2, 2, 3)
picture = Image.new("RGB", (60, 30), "red"); text = "long\\n" * 100`
      await runPython(shared.guest, code)
      const { image } = await rows('pixels')
      expect(image).toMatchObject({ width: 64, height: 1024 })
      const png = Buffer.from(image?.png ?? '', 'base64')
      // Every second pixel of it.
      expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([32, 512])
      expect((await rows('picture')).image).toMatchObject({ width: 60, height: 30 })
      expect((await rows('grid')).table).toMatchObject({ part: '[0, :, :]', rowCount: 2, columnCount: 3 })
      expect((await rows('text')).text).toBe('long\n'.repeat(100))
    })

    test('are not known during a run, which does not wait for them', async () => {
      const runId = await startRun(shared.guest, { code: 'import time; time.sleep(1000)' })
      expect(await listed()).toMatchObject({ state: 'busy', variables: [] })
      await expect(rows('x')).rejects.toMatchObject({ code: 'conflict' })
      await shared.guest.runs.interrupt(runId)
      await collect(shared.guest.runs.events(runId))
      expect(await listed()).toMatchObject({ state: 'idle' })
    })

    test('are bounded in number and length', async () => {
      await runPython(
        shared.guest,
        'for i in range(2000): globals()[f"many_{i}"] = "x" * 1000\nglobals()["y" * 500] = 1\nglobals()["no name"] = 1',
      )
      const { variables = [], more } = (await listed()) ?? {}
      expect(variables).toHaveLength(500)
      expect(more).toBe(true)
      expect(variables.at(-1)).toMatchObject({ name: 'many_1999', shape: [1000], opens: 'text' })
      expect(Math.max(...variables.map(({ preview }) => preview.length))).toBeLessThanOrEqual(120)
    })
  })
}
