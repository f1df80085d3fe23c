import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { E2bServer, type InterpreterClient, loadInterpreter } from './e2b-server.ts'

let e2b: E2bServer
let sandbox: InstanceType<InterpreterClient['Sandbox']>
beforeAll(async () => {
  const { Sandbox } = await loadInterpreter()
  e2b = await E2bServer.start()
  sandbox = await Sandbox.create(e2b.options)
})
afterAll(async () => {
  await e2b?.end()
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
    expect((await sandbox.runCode('print(os.environ["A"] + os.environ["B"])', { envs })).logs.stdout).toEqual(
      ['it\'s "quoted"\nnew\n'],
    )
    expect((await sandbox.runCode('os.environ.get("A"), os.environ["B"]')).text).toBe("(None, 'old')")
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
