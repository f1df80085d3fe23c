import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type E2bServer, type InterpreterClient, loadInterpreter } from './e2b-server.ts'

/** What the client of the code interpreter does. */
export function interpreterSuite(e2b: E2bServer): void {
  let sandbox: InstanceType<InterpreterClient['Sandbox']>
  beforeAll(async () => {
    const { Sandbox } = await loadInterpreter()
    sandbox = await Sandbox.create(e2b.options)
  })
  afterAll(async () => {
    await sandbox?.kill()
  })

  describe('code', () => {
    test('keeps its variables between runs and in contexts of their own', async () => {
      await sandbox.runCode('x = 1')
      const { text, executionCount } = await sandbox.runCode('x + 1')
      expect([text, executionCount]).toEqual(['2', 2])
      const context = await sandbox.createCodeContext({ cwd: '/tmp' })
      const other = await sandbox.runCode('import os; print(os.getcwd()); x', { context })
      expect(other.logs.stdout.join('')).toBe('/tmp\n')
      expect(other.error?.name).toBe('NameError')
      const ids = (await sandbox.listCodeContexts()).map(({ id }) => id)
      expect(ids).toEqual(expect.arrayContaining(['default', context.id]))
      await sandbox.removeCodeContext(context)
      await expect(sandbox.runCode('1', { context })).rejects.toThrow(/not found/)
    })

    test('has the variables of a run only during that run', async () => {
      await sandbox.runCode('import os; os.environ["B"] = "old"')
      const envs = { A: 'it\'s "quoted"\n', B: 'new' }
      const { logs } = await sandbox.runCode('print(os.environ["A"] + os.environ["B"])', { envs })
      expect(logs.stdout.join('')).toBe('it\'s "quoted"\nnew\n')
      expect((await sandbox.runCode('os.environ.get("A"), os.environ["B"]')).text).toBe("(None, 'old')")
    })

    test('runs in other languages that the sandbox has, and says which it does not have', async () => {
      await sandbox.runCode('x=5', { language: 'bash' })
      const { logs } = await sandbox.runCode('echo $((x + 1)) $A', { language: 'bash', envs: { A: "it's" } })
      expect(logs.stdout.join('')).toBe("6 it's\n")
      await sandbox.runCode('export A=before', { language: 'bash' })
      await sandbox.runCode('true', { language: 'bash', envs: { A: 'during' } })
      expect((await sandbox.runCode('echo $A', { language: 'bash' })).logs.stdout.join('')).toBe('before\n')
      await expect(sandbox.runCode('1', { language: 'cobol' })).rejects.toThrow(/500/)
    })

    test('fails with what happened when its sandbox is killed', async () => {
      const { Sandbox } = await loadInterpreter()
      const other = await Sandbox.create(e2b.options)
      let onStdout = () => {}
      const started = new Promise<void>((resolve) => {
        onStdout = resolve
      })
      const running = other.runCode('print(1, flush=True); import time; time.sleep(300)', { onStdout })
      const failed = expect(running).rejects.toThrow(/killed while the request was in progress/)
      await started
      await other.kill()
      await failed
    })

    test('is interrupted when its client gives up, and its context works on', async () => {
      await expect(sandbox.runCode('import time; time.sleep(60)', { timeoutMs: 500 })).rejects.toThrow()
      expect((await sandbox.runCode('6 * 7')).text).toBe('42')
    })

    test('loses its variables when its context is restarted', async () => {
      await sandbox.runCode('y = 5')
      await sandbox.restartCodeContext('default')
      expect((await sandbox.runCode('y')).error?.name).toBe('NameError')
    })

    test('shows results in all formats, and errors with their traceback', async () => {
      const code = `
  from IPython.display import display, HTML, Markdown, Latex, JSON, Javascript, SVG
  display(HTML('<b>x</b>')); display(Markdown('*x*')); display(Latex('$x$')); display(JSON({'a': 1}))
  display(Javascript('1')); display(SVG('<svg xmlns="http://www.w3.org/2000/svg"></svg>'))
  import matplotlib.pyplot as plt
  plt.plot([1, 2]); plt.show()
  'text'
  `
      const { results } = await sandbox.runCode(code)
      const formats = results.flatMap((result) => [...result.formats()])
      for (const format of ['html', 'markdown', 'latex', 'json', 'javascript', 'svg', 'png'])
        expect(formats).toContain(format)
      expect(results.at(-1)).toMatchObject({ text: 'text', isMainResult: true })
      const { error } = await sandbox.runCode('1 / 0')
      expect(error).toMatchObject({ name: 'ZeroDivisionError', value: 'division by zero' })
      expect(error?.traceback).toContain('1 / 0')
    })
  })

  describe('charts', () => {
    const chartOf = async (code: string) => {
      const { results, error } = await sandbox.runCode(`import matplotlib.pyplot as plt\n${code}\nplt.show()`)
      expect(error).toBeUndefined()
      return results[0]?.chart as unknown as Record<string, unknown>
    }

    test('of lines have their labels, units, ticks and points', async () => {
      const chart = await chartOf(
        "plt.plot([1, 2, 3], [1, 4, 9], label='squares'); plt.xlabel('time (s)'); plt.ylabel('area'); plt.title('t')",
      )
      expect(chart).toMatchObject({
        type: 'line',
        title: 't',
        x_label: 'time (s)',
        x_unit: 's',
        y_label: 'area',
      })
      expect(chart).toMatchObject({ x_scale: 'linear', elements: [{ label: 'squares' }] })
      expect((chart['elements'] as { points: number[][] }[])[0]?.points).toEqual([
        [1, 1],
        [2, 4],
        [3, 9],
      ])
    })

    test('of dots, bars and pies have their values', async () => {
      const dots = await chartOf("plt.scatter([1, 2], [3, 4], label='a')")
      expect(dots).toMatchObject({
        type: 'scatter',
        elements: [
          {
            label: 'a',
            points: [
              [1, 3],
              [2, 4],
            ],
          },
        ],
      })
      const bars = await chartOf("plt.bar(['x', 'y'], [5, 7], label='g')")
      expect(bars).toMatchObject({
        type: 'bar',
        elements: [
          { label: 'x', group: 'g', value: 5 },
          { label: 'y', group: 'g', value: 7 },
        ],
      })
      const pie = await chartOf("plt.pie([1, 3], labels=['a', 'b'])")
      expect(pie).toMatchObject({
        type: 'pie',
        elements: [
          { label: 'a', angle: 90, radius: 1 },
          { label: 'b', angle: 270, radius: 1 },
        ],
      })
    })

    test('of boxes have quartiles and outliers, and several axes are one chart of charts', async () => {
      const data = '[[1, 2, 3, 4, 5, 20], [2, 4, 6, 8, 10, 12]]'
      const boxes = await chartOf(`plt.boxplot(${data}, tick_labels=['a', 'b'], patch_artist=True)`)
      expect(boxes).toMatchObject({
        type: 'box_and_whisker',
        elements: [
          {
            label: 'a',
            min: 1,
            first_quartile: 2.25,
            median: 3.5,
            third_quartile: 4.75,
            max: 5,
            outliers: [20],
          },
          { label: 'b', min: 2, median: 7, max: 12, outliers: [] },
        ],
      })
      const both = await chartOf('_, (a, b) = plt.subplots(1, 2); a.plot([1, 2]); b.bar([1, 2], [3, 4])')
      expect(both).toMatchObject({ type: 'superchart', elements: [{ type: 'line' }, { type: 'bar' }] })
    })

    test('are only one form of a figure, and tables have their columns', async () => {
      const { results } = await sandbox.runCode(
        "import pandas as pd; pd.DataFrame({'a': [1, 2], 'b': ['x', None]})",
      )
      expect(results[0]).toMatchObject({
        data: { a: [1, 2], b: ['x', null] },
        html: expect.stringContaining('<table'),
      })
    })
  })
}
