import type { RunEvent } from '@dormouse/contracts'
import type { StartRun } from '@dormouse/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { collect } from '../../packages/engine/src/contract/collect.ts'
import { useSharedBurrow } from '../../packages/engine/src/contract/shared-burrow.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { putNode } from './put-node.ts'

const factory = await linuxFactory()
afterAll(() => factory.cleanUp())

describe('JavaScript', () => {
  const shared = useSharedBurrow(factory)
  beforeAll(async () => {
    await expect(shared.guest.runs.run({ code: '1', language: 'javascript' })).rejects.toMatchObject({
      code: 'language_missing',
      message: 'this sandbox has no Node.js, which javascript and typescript need; it has python, bash',
    })
    await putNode(shared.guest)
  })
  const run = (code: string, more: Partial<StartRun> = {}) =>
    shared.guest.runs.run({ code, language: 'javascript', ...more })
  const show = async (code: string, more: Partial<StartRun> = {}) => {
    const { results, error } = await run(code, more)
    expect(error).toBeUndefined()
    return results.at(-1)?.['text/plain']
  }

  test('variables are listed and opened without calling getters, proxies or toString', async () => {
    await run(`let calls = []
const noisy = { get secret() { calls.push('getter'); return 1 }, plain: 2, toString() { calls.push('string'); return '' } }
const late = { get then() { calls.push('then'); return undefined } }
const proxy = new Proxy({}, { get() { calls.push('get') }, ownKeys() { calls.push('keys'); return [] } })
class Tagged { get [Symbol.toStringTag]() { calls.push('tag'); return 'x' } get size() { calls.push('size'); return 1 } }
const tagged = new Tagged(); const people = [{ name: 'Ada', age: 36 }, { name: 'Bo', age: 7 }]; var text = 'a\\nb'`)
    const list = (await shared.guest.variables.list()).find(({ language }) => language === 'javascript')
    const found = Object.fromEntries((list?.variables ?? []).map((one) => [one.name, one]))
    expect(found['noisy']).toMatchObject({
      preview: '{secret: [getter], plain: 2, toString: function toString}',
    })
    expect(found['proxy']).toMatchObject({ type: 'Proxy', preview: '[Proxy]' })
    expect(found['tagged']).toMatchObject({ type: 'Tagged', preview: '<Tagged>' })
    expect(found['people']).toMatchObject({ type: 'Array', shape: [2], opens: 'table' })
    const context = list?.context ?? ''
    const { table } = await shared.guest.variables.rows({
      context,
      name: 'people',
      sort: 1,
      filters: [[1, '>5']],
    })
    expect(table).toMatchObject({ rows: [{ cells: ['Bo', '7'] }, { cells: ['Ada', '36'] }], matchCount: 2 })
    for (const name of ['noisy', 'late', 'proxy', 'tagged'])
      await shared.guest.variables.rows({ context, name })
    expect((await shared.guest.variables.rows({ context, name: 'text' })).text).toBe('a\nb')
    expect((await run('calls.join()')).stdout + (await run('console.log(calls.join())')).stdout).toBe('\n')
  })

  test('keeps variables, functions and classes, which later runs may declare again', async () => {
    await run('let a = 1; const o = { x: 1 }; class P { y = 1 }; function f() { return a } var v = 5')
    expect(await show('[a, o.x, new P().y, f(), v]')).toBe('[ 1, 1, 1, 1, 5 ]')
    await run('let a = 2; const o = { x: 2 }; class P { y = 2 }; function f() { return -a }')
    expect(await show('[a, o.x, new P().y, f(), v]')).toBe('[ 2, 2, 2, -2, 5 ]')
    const refused = await run('o = 3')
    expect(refused.error).toMatchObject({ name: 'TypeError', message: 'Assignment to constant variable.' })
  })

  test('awaits at the top, and names that it declares there stay', async () => {
    expect(await show('const late = await new Promise((r) => setTimeout(r, 20, "came")); late')).toBe(
      "'came'",
    )
    expect(await show('late')).toBe("'came'")
  })

  test('imports statically and dynamically, and requires, from its working directory', async () => {
    await shared.guest.files.write('/root/mine.mjs', 'export default 7; export const named = import.meta.url')
    await shared.guest.files.write(
      '/root/node_modules/dual/package.json',
      JSON.stringify({
        exports: { import: './esm.mjs', require: './common.cjs' },
      }),
      { parents: true },
    )
    await shared.guest.files.write('/root/node_modules/dual/esm.mjs', 'export const kind = "import"')
    await shared.guest.files.write('/root/node_modules/dual/common.cjs', 'exports.kind = "require"')
    await run(
      'import seven, { named as where } from "./mine.mjs"\nimport * as all from "./mine.mjs"; import "node:os"',
    )
    expect(await show('[seven, where, all.named === where]')).toBe("[ 7, 'file:///root/mine.mjs', true ]")
    expect(await show('[(await import("dual")).kind, require("dual").kind]')).toBe("[ 'import', 'require' ]")
    const code = 'const inside = async () => (await import("node:path")).sep; await inside()'
    expect(await show(code)).toBe("'/'")
    expect(await show('export const shown = import.meta.filename; shown')).toBe("'/root/cell.js'")
  })

  test('streams console output in order with results and errors', async () => {
    const code = `
      console.log('one', { two: 2 }); console.error('three'); process.stdout.write('no end')
      await dormouse.display({ four: 4 }); console.log(); throw new RangeError('five')`
    const events: RunEvent[] = await collect(shared.guest.runs.stream({ code, language: 'javascript' }))
    const shown = events.map((event) =>
      event.type === 'result' ? event.data['text/plain'] : 'data' in event ? event.data : event.type,
    )
    expect(shown).toEqual([
      'start',
      'one { two: 2 }\n',
      'three\n',
      'no end',
      '{ four: 4 }',
      '\n',
      expect.stringContaining('RangeError: five\n    at cell-'),
      'error',
      'exit',
    ])
  })

  test('shows values as text, as JSON, as HTML and as images', async () => {
    const results = async (code: string) => (await run(code)).results
    expect(await results('({ a: [1, { b: null }] })')).toEqual([
      { 'text/plain': '{ a: [ 1, { b: null } ] }', 'application/json': { a: [1, { b: null }] } },
    ])
    expect(await results('{ a: 1 }')).toEqual([{ 'text/plain': '{ a: 1 }', 'application/json': { a: 1 } }])
    expect(await results('new Map([[1, 2]])')).toEqual([{ 'text/plain': 'Map(1) { 1 => 2 }' }])
    expect(await results('[1, NaN]')).toEqual([{ 'text/plain': '[ 1, NaN ]' }])
    expect(await results('let nothing')).toEqual([])
    const html = '({ [Symbol.for("Jupyter.display")]: () => ({ "text/html": "<b>bold</b>" }) })'
    expect(await results(html)).toMatchObject([{ 'text/html': '<b>bold</b>' }])
    expect(await results('({ outerHTML: "<svg/>", tagName: "svg" })')).toMatchObject([
      { 'image/svg+xml': '<svg/>' },
    ])
    const png = 'Buffer.from("89504e470d0a1a0a", "hex")'
    expect(await results(png)).toMatchObject([{ 'image/png': 'iVBORw0KGgo=' }])
    const bad = '({ get a() { throw 1 }, [Symbol.for("Jupyter.display")]() { throw 2 } })'
    expect(await results(bad)).toEqual([{ 'text/plain': expect.stringContaining('[Getter]') }])
    const [large] = await results('"x".repeat(3_000_000)')
    expect(String(large?.['text/plain']).length).toBeLessThan(300_000)
  })

  test('errors have the frames of user code only', async () => {
    const thrown = await run('function outer() { inner() }\nfunction inner() { null.x }\nouter()')
    expect(thrown).toMatchObject({ exitCode: 1, error: { name: 'TypeError' } })
    const frames = thrown.error?.traceback
      .trim()
      .split('\n')
      .slice(1)
      .map((line) => line.replace(/cell-\d+/, 'cell'))
    expect(frames).toEqual([
      '    at inner (cell.js:2:25)',
      '    at outer (cell.js:1:20)',
      '    at cell.js:3:1',
    ])
    expect(thrown.stderr).toBe(thrown.error?.traceback)
    const syntax = await run('let = ;')
    expect(syntax.error).toMatchObject({
      name: 'SyntaxError',
      traceback: expect.stringContaining('let = ;\n      ^'),
    })
    expect((await run('throw 5')).error).toEqual({
      name: 'Uncaught',
      message: '5',
      traceback: 'Uncaught 5\n',
    })
    expect((await run('await Promise.reject(new Error("late"))')).error).toMatchObject({ message: 'late' })
  })

  test('errors of timers and forgotten promises are printed, and end nothing', async () => {
    const code = `setTimeout(() => { throw new Error('of a timer') }, 1)
      Promise.reject(new Error('of a promise')); await new Promise((r) => setTimeout(r, 50)); 'alive'`
    const { stderr, results } = await run(code)
    expect(stderr).toContain('Uncaught Error: of a timer')
    expect(stderr).toContain('Uncaught Error: of a promise')
    expect(results[0]?.['text/plain']).toBe("'alive'")
  })

  test('process.exit() ends the run and keeps the variables', async () => {
    expect(await run('let kept = 3; process.exit(4); kept = 5')).toMatchObject({ exitCode: 4 })
    expect(await show('kept')).toBe('3')
  })

  test('TypeScript has the variables of JavaScript', async () => {
    const code = `interface Point { x: number }
      enum Colour { Red, Green }
      const typed: Point = { x: 1 } as Point
      function same<Value>(value: Value): Value { return value }
      same<number>(typed.x) + Colour.Green`
    expect(await show(code, { language: 'typescript' })).toBe('2')
    expect(await show('typed.x')).toBe('1')
    const wrong = await run('let wrong: = 3', { language: 'typescript' })
    expect(wrong.error).toMatchObject({ name: 'SyntaxError' })
  })

  test.each([
    ['a loop', 'while (true) {}'],
    ['a loop that catches everything', 'while (true) { try { while (true) {} } catch {} finally {} }'],
    ['a loop after an await', 'await 1; while (true) {}'],
    ['a promise that never settles', 'await new Promise(() => {})'],
    ['a loop in a timer', 'setTimeout(() => { while (true) {} }); await new Promise(() => {})'],
    ['a loop of microtasks', 'const spin = async () => { while (true) await 0 }; await spin()'],
    ['a program that it waits for', 'require("child_process").execSync("sleep 100")'],
  ])('%s is interrupted, and the variables stay', async (_what, code) => {
    await run('globalThis.before = 1')
    const stopped = await run(code, { timeoutMs: 500 })
    expect(stopped).toMatchObject({ timedOut: true, exitCode: 124, error: { name: 'RunTimeout' } })
    expect(stopped.contextRestarted).toBeUndefined()
    expect(await show('before')).toBe('1')
  })

  test('asks the caller of the run', async () => {
    const code = 'const name = await dormouse.input("Name? "); name.toUpperCase()'
    const events: RunEvent[] = []
    for await (const event of shared.guest.runs.stream({ code, language: 'javascript', input: true })) {
      events.push(event)
      const start = events[0]
      if (event.type === 'input' && start?.type === 'start')
        await shared.guest.runs.input(start.runId, { seq: event.seq, text: 'ada' })
    }
    expect(events.find(({ type }) => type === 'result')).toMatchObject({ data: { 'text/plain': "'ADA'" } })
    expect((await run(code)).error).toMatchObject({ message: expect.stringContaining('no keyboard') })
  })

  test('completes names and properties', async () => {
    await run('const completable = { alpha: 1, beta: { gamma: 2 } }')
    const complete = (code: string) => shared.guest.contexts.complete('javascript', code)
    expect(await complete('complet')).toEqual({ matches: ['completable'], replaces: 'complet', more: false })
    expect(await complete('1 + completable.beta.ga')).toMatchObject({ matches: ['gamma'], replaces: 'ga' })
    expect((await complete('completable.')).matches).toContain('alpha')
  })

  test('a context of its own has its own variables, directory and environment', async () => {
    const env = { GREETING: 'hi' }
    const info = await shared.guest.contexts.create({
      context: 'web',
      language: 'typescript',
      cwd: '/tmp',
      env,
    })
    expect(info).toMatchObject({ context: 'web', language: 'typescript' })
    const { results } = await shared.guest.runs.run({
      code: 'const where: string = process.cwd(); [where, process.env.GREETING, typeof before]',
      context: 'web',
    })
    expect(results[0]?.['text/plain']).toBe("[ '/tmp', 'hi', 'undefined' ]")
    const refused = shared.guest.runs.run({ code: '1', context: 'web', language: 'python' })
    await expect(refused).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining("context 'web' runs javascript and typescript, not python"),
    })
  })

  test('a kernel that dies says so, and the next run gets a new one', async () => {
    const died = await run('process.kill(process.pid, "SIGKILL"); await new Promise(() => {})')
    expect(died).toMatchObject({ error: { name: 'KernelDied' } })
    expect(await show('typeof before')).toBe("'undefined'")
  })
})
