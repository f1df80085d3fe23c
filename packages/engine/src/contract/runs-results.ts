import type { RunEvent } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import { collect, runPython } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

const PNG_SIGNATURE = '89504e470d0a1a0a'
const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

export function describeRunsResults(factory: EngineFactory): void {
  describe('results', () => {
    const shared = useSharedBurrow(factory)
    const results = async (code: string) => {
      const run = await shared.guest.runs.run({ code })
      expect({ stderr: run.stderr, exitCode: run.exitCode }).toEqual({ stderr: '', exitCode: 0 })
      return run.results
    }
    const events = (code: string): Promise<RunEvent[]> => collect(shared.guest.runs.stream({ code }))
    const pngHeader = (value: unknown) => Buffer.from(String(value), 'base64').subarray(0, 8).toString('hex')

    test('the value of the last expression arrives as text, marked as main', async () => {
      expect(await events('print("said")\n[1, 2]')).toMatchObject([
        { type: 'start' },
        { type: 'stdout', data: 'said\n' },
        { type: 'result', data: { 'text/plain': '[1, 2]' }, main: true },
        { type: 'exit', exitCode: 0 },
      ])
    })

    test('the last value is _ in the next run', async () => {
      await results('6 * 7')
      expect(await results('_ + 1')).toEqual([{ 'text/plain': '43' }])
    })

    test('a value that cannot be shown reports the reason on stderr', async () => {
      const run = await shared.guest.runs.run({ code: 'class V:\n  def __repr__(self): 1 / 0\nV()' })
      expect(run.stderr).toMatch(/line 2, in __repr__[\s\S]*ZeroDivisionError: division by zero\n$/)
      expect(run.results).toEqual([])
    })

    test.each([
      ['None', 'None'],
      ['an assignment', 'x = 5'],
      ['an expression with a semicolon', '5;'],
      ['an expression that is not the last', '5\nx = 6'],
      ['an expression in a loop', 'for i in range(3):\n  i'],
      ['print', 'print(5)'],
    ])('%s gives no result', async (_what, code) => {
      expect(await results(code)).toEqual([])
    })

    test('displayed objects keep their place in the output, and are not marked as main', async () => {
      const code = 'print("a")\ndisplay(1)\nprint("b")\ndisplay("two", 3)\nprint("c")\n4'
      const shown = (await events(code)).map((event) => {
        if (event.type === 'stdout') return event.data
        return event.type === 'result' ? [event.data['text/plain'], event.main] : event.type
      })
      expect(shown).toEqual([
        'start',
        'a\n',
        ['1', undefined],
        'b\n',
        ["'two'", undefined],
        ['3', undefined],
        'c\n',
        ['4', true],
        'exit',
      ])
    })

    test('a pandas frame arrives as text and HTML', async () => {
      const [frame] = await results('import pandas as pd\npd.DataFrame({"colour": ["red"], "n": [7]})')
      expect(frame?.['text/plain']).toMatch(/colour +n\n0 +red +7/)
      expect(frame?.['text/html']).toMatch(/<table[\s\S]*<td>red<\/td>/)
    })

    test('JSON, SVG, HTML, Markdown, LaTeX and images arrive under their MIME types', async () => {
      const shown = await results(
        'from IPython.display import JSON, SVG, HTML, Markdown, Latex, Image\nimport base64\n' +
          'display(JSON({"a": [1, None, "ü"]}), SVG("<svg xmlns=\'http://www.w3.org/2000/svg\'/>"))\n' +
          'display(HTML("<b>x</b>"), Markdown("**x**"), Latex("$x$"))\n' +
          `display(Image(base64.b64decode("${PIXEL}")))`,
      )
      expect(shown).toMatchObject([
        { 'application/json': { a: [1, null, 'ü'] } },
        { 'image/svg+xml': expect.stringMatching(/^<svg/) },
        { 'text/html': '<b>x</b>' },
        { 'text/markdown': '**x**' },
        { 'text/latex': '$x$' },
        { 'image/png': expect.any(String) },
      ])
      expect(pngHeader(shown[5]?.['image/png'])).toBe(PNG_SIGNATURE)
    })

    test('an object’s own representations are used', async () => {
      const code =
        'class Own:\n  def __repr__(self): return "plain"\n  def _repr_html_(self): return "<i>own</i>"\n' +
        '  def _repr_mimebundle_(self, **_): return {"application/x-own+json": {"k": 1}}\nOwn()'
      expect(await results(code)).toEqual([
        { 'text/plain': 'plain', 'text/html': '<i>own</i>', 'application/x-own+json': { k: 1 } },
      ])
    })

    test('an open matplotlib figure arrives once as image/png', async () => {
      const [figure, ...others] = await results('import matplotlib.pyplot as plt\n_ = plt.plot([1, 3, 2])')
      expect(others).toEqual([])
      expect(pngHeader(figure?.['image/png'])).toBe(PNG_SIGNATURE)
      expect(await results('x = 1')).toEqual([])
    })

    test('plt.show() shows a figure at its place and not again at the end', async () => {
      const code = 'import matplotlib.pyplot as plt\n_ = plt.plot([1])\nplt.show()\nprint("after")'
      expect((await events(code)).map(({ type }) => type)).toEqual(['start', 'result', 'stdout', 'exit'])
    })

    test.each(['display(figure)', 'figure'])(
      'a figure shown by %s does not come again at the end',
      async (show) => {
        const code = `import matplotlib.pyplot as plt\nfigure = plt.figure()\n_ = plt.plot([1])\n${show}`
        const shown = await results(code)
        expect(shown.map((data) => pngHeader(data['image/png']))).toEqual([PNG_SIGNATURE])
      },
    )

    test('every open figure arrives, also when the code fails afterwards', async () => {
      const code = 'import matplotlib.pyplot as plt\nfor i in range(2): plt.figure(); plt.plot([i])\n1 / 0'
      const run = await shared.guest.runs.run({ code })
      expect(run.exitCode).toBe(1)
      expect(run.results.map((data) => pngHeader(data['image/png']))).toEqual([PNG_SIGNATURE, PNG_SIGNATURE])
    })

    test('a huge value is shortened, and the text says so', async () => {
      const [value] = await results('"x" * 5_000_000')
      expect(String(value?.['text/plain']).length).toBeLessThan(2_000_000)
      expect(value?.['text/plain']).toMatch(/… \d+ bytes left out …/)
    })

    test('a representation that is too large is named but not sent, the others are sent', async () => {
      const code = 'from IPython.display import HTML\nHTML("<p>" + "y" * 30_000_000)'
      const [value] = await results(code)
      expect(value?.['text/html']).toBeUndefined()
      expect(value?.['text/plain']).toMatch(/text\/html: \d+ bytes, too large/)
    })

    test('lone surrogates and NUL in a value arrive as text', async () => {
      expect(await results('from IPython.display import HTML\nHTML("a\\ud800b\\0c")')).toMatchObject([
        { 'text/html': expect.stringMatching(/^a.b\0c$/) },
      ])
      expect(await runPython(shared.guest, 'print("fine")')).toBe('fine\n')
    })
  })
}
