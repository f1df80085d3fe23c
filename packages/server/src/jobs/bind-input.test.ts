import { execFileSync } from 'node:child_process'
import type { JobId, Language } from '@dormouse/contracts'
import { expect, test } from 'vitest'
import { bindInput } from './bind-input.ts'

const INPUTS = [1.5, null, true, 'it\'s "é😀"\n\\ $(exit 9) `exit 9` \u2028', { 'a"b': [1, { c: "'" }] }]
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

test.each(INPUTS)('bash finds the input %j in the environment: text as it is, the rest as JSON', (input) => {
  const code = whole("python3 -c \"import os; print(os.environ['item'], end='')\"", 'bash', input)
  const found = execFileSync('bash', ['-c', code], { encoding: 'utf8' })
  expect(typeof input === 'string' ? found : JSON.parse(found)).toEqual(input)
})

test.each([
  [1.5, '1.5'],
  [[null, true], 'list(NULL, TRUE)'],
  ['a "b"\n\0', '"a \\"b\\"\\n"'],
  [
    { 'a"b': ['c'], d: {} },
    'structure(list(list("c"), structure(list(), names = as.character(c()))), names = as.character(c("a\\"b", "d")))',
  ],
])('R gets the input %j as %s', (input, expected) => {
  const { before, code } = bindInput({ code: 'item + 1', language: 'r', variable: 'item' }, task(input))
  expect(code).toBe('item + 1')
  expect(before).toEqual({
    language: 'r',
    code: `Sys.setenv(DORMOUSE_JOB_ID = "job-2222222222222222", DORMOUSE_TASK_INDEX = "7", DORMOUSE_TASK_ATTEMPT = "2"); item <- ${expected}`,
  })
})
