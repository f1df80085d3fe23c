import { execFileSync, spawnSync } from 'node:child_process'
import type { JobId, Language } from '@dormouse/contracts'
import { expect, test } from 'vitest'
import { bindInput } from './bind-input.ts'

const INPUTS = [1.5, null, true, 'it\'s "é😀"\n\\ $(exit 9) `exit 9` \u2028', { 'a"b': [1, { c: "'" }] }]
/** What R shows of an input, and how it is written. */
const R_VALUES: readonly (readonly [input: unknown, shown: string, text: string])[] = [
  [1.5, '1.5', '1.5'],
  [null, 'NULL', 'NULL'],
  ['a"b\n\u0000\ud800', '"a\\"b\\n\ufffd"', '"a\\"b\\n\ufffd"'],
  [[1, 2.5], 'c(1, 2.5)', 'c(1, 2.5)'],
  [[1, 'a', null], 'list(1, "a", NULL)', 'list(1, "a", NULL)'],
  [
    { a: true, 'b c': [] },
    'list(a = TRUE, `b c` = list())',
    'stats::setNames(list(TRUE, list()), c("a", "b c"))',
  ],
  [{}, 'structure(list(), names = character(0))', 'stats::setNames(list(), character())'],
]
const task = (input: unknown) => ({
  ...{ jobId: 'job-2222222222222222' as JobId, index: 7, attempts: 2 },
  input: JSON.stringify(input),
})

function whole(code: string, language: Language, input: unknown): string {
  const bound = bindInput({ code, language, variable: 'item' }, task(input))
  return `${bound.before?.code ?? ''}\n${bound.code}`
}

test.each(INPUTS)('Python finds the input %j in its variable', (input) => {
  const code = whole(
    'import json, os; print(json.dumps([item, os.environ["DORMOUSE_TASK_INDEX"]]))',
    'python',
    input,
  )
  expect(JSON.parse(execFileSync('python3', ['-c', code], { encoding: 'utf8' }))).toEqual([input, '7'])
})

test.each(INPUTS)('JavaScript finds the input %j in its variable', (input) => {
  const code = whole(
    'console.log(JSON.stringify([item, process["env"].DORMOUSE_TASK_ATTEMPT]))',
    'javascript',
    input,
  )
  expect(JSON.parse(execFileSync(process.execPath, ['-e', code], { encoding: 'utf8' }))).toEqual([input, '2'])
})

// Skip: few hosts have R.
test.runIf(spawnSync('Rscript', ['--version']).status === 0)('R finds inputs in its variable', () => {
  for (const [input, shown] of R_VALUES) {
    const code = whole('cat(deparse(item), Sys.getenv("DORMOUSE_TASK_INDEX"))', 'r', input)
    expect(execFileSync('Rscript', ['-e', code], { encoding: 'utf8' })).toBe(`${shown} 7`)
  }
})

test('inputs are values of R, which reads no JSON', () => {
  for (const [input, , text] of R_VALUES)
    expect(bindInput({ code: 'f(item)', language: 'r', variable: 'item' }, task(input))).toEqual({
      before: { language: 'r', code: expect.stringContaining(`assign("item", ${text}, globalenv())`) },
      code: 'f(item)',
    })
})

test.each(INPUTS)('bash finds the input %j in the environment: text as it is, the rest as JSON', (input) => {
  const code = whole("python3 -c \"import os; print(os.environ['item'], end='')\"", 'bash', input)
  const found = execFileSync('bash', ['-c', code], { encoding: 'utf8' })
  expect(typeof input === 'string' ? found : JSON.parse(found)).toEqual(input)
})
