import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RunFailedError, RunTimeoutError } from '../error.ts'
import { CommandResult } from '../processes/command-result.ts'
import { Result } from './result.ts'
import { RunResult } from './run-result.ts'

const FORMS = {
  'text/plain': 't',
  'text/html': '<b>ü</b>',
  'text/markdown': '*m*',
  'text/latex': '$l$',
  'image/svg+xml': '<svg/>',
  'application/json': { a: [1, 'ü'] },
  'image/png': 'aGk=\n',
}
const result = new Result(FORMS, true)

describe('a result', () => {
  let directory = ''
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'dormouse-result-'))
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  test('has its forms, by name and by mime type', () => {
    expect([result.text, result.html, result.markdown, result.latex, result.svg]).toEqual([
      't',
      '<b>ü</b>',
      '*m*',
      '$l$',
      '<svg/>',
    ])
    expect([result.json, result.isMain]).toEqual([{ a: [1, 'ü'] }, true])
    expect(result.png).toEqual(new TextEncoder().encode('hi'))
    expect(result.jpeg).toBeUndefined()
    expect(result['text/html']).toBe('<b>ü</b>')
    // As the server sent it.
    expect(JSON.parse(JSON.stringify(result))).toEqual(FORMS)
  })

  test('is saved in the form that the ending names', async () => {
    for (const name of ['a.txt', 'a.html', 'a.md', 'a.tex', 'a.svg', 'a.json', 'a.PNG'])
      await result.saveTo(join(directory, name))
    await result.saveTo(pathToFileURL(join(directory, 'b.png')))
    expect(await readFile(join(directory, 'a.html'), 'utf8')).toBe('<b>ü</b>')
    expect(await readFile(join(directory, 'a.PNG'), 'utf8')).toBe('hi')
    expect(await readFile(join(directory, 'b.png'), 'utf8')).toBe('hi')
    expect(JSON.parse(await readFile(join(directory, 'a.json'), 'utf8'))).toEqual(result.json)
  })

  test('is not saved in a form that it does not have', async () => {
    const before = await readdir(directory)
    for (const wrong of ['a.jpeg', 'a.xyz', 'a', '.png/a'])
      await expect(result.saveTo(join(directory, wrong))).rejects.toMatchObject({
        code: 'invalid_argument',
        message: expect.stringMatching(/^path: /),
        hint: expect.stringContaining('.png'),
      })
    await expect(
      new Result({ 'image/png': 'no base64!' }).saveTo(join(directory, 'c.png')),
    ).rejects.toMatchObject({ code: 'invalid_argument' })
    expect(await readdir(directory)).toEqual(before)
  })

  test('of code that lies about its names and values keeps its members', async () => {
    const names = '{"png":"x","saveTo":1,"constructor":2,"__proto__":{"html":"x"},"text/plain":3,"a/b":4}'
    const odd = new Result(JSON.parse(names))
    expect([odd.png, odd.text, odd.html, typeof odd.saveTo, odd['a/b']]).toEqual([
      undefined,
      undefined,
      undefined,
      'function',
      4,
    ])
    expect(odd).toBeInstanceOf(Result)
    expect(odd.dataOf('toString')).toBeUndefined()
  })
})

describe('check', () => {
  test('returns a run that succeeded, and throws for one that failed', () => {
    const good = Object.assign(new RunResult(), { exitCode: 0, results: [new Result({}), result] })
    expect([good.check(), good.ok, good.result]).toEqual([good, true, result])
    const error = { name: 'ValueError', message: 'no', traceback: '' }
    const failed = Object.assign(new RunResult(), { exitCode: 1, error })
    const thrown = failureOf(failed)
    expect(thrown).toMatchObject({ code: 'run_failed', message: 'ValueError: no', name: 'RunFailedError' })
    expect([thrown.result, thrown instanceof RunTimeoutError]).toEqual([failed, false])
  })

  test('throws an error of its own for a time-out', () => {
    const late = Object.assign(new RunResult(), { exitCode: 124, timedOut: true })
    expect(failureOf(late)).toBeInstanceOf(RunTimeoutError)
    const command = Object.assign(new CommandResult('p', 1), {
      exitCode: 124,
      timedOut: true,
      durationMs: 200,
    })
    expect(failureOf(command)).toMatchObject({ code: 'run_timed_out', result: command })
  })
})

function failureOf(result: RunResult | CommandResult): RunFailedError {
  try {
    result.check()
  } catch (error) {
    if (error instanceof RunFailedError) return error
  }
  throw new Error('check did not throw')
}
