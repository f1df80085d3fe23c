import { expect, it } from 'vitest'
import { countByFile, countTests, failedTests } from './count-tests.mjs'
import { failedFiles } from './failed-files.mjs'
import { filesOf } from './unhandled-reporter.mjs'

let files = 0
const file = (status: string, ...tests: string[]) => ({
  name: `file-${++files}`,
  status,
  assertionResults: tests.map((test) => ({ status: test })),
})

it('countTests counts tests by outcome, and a file that could not be loaded as one failure', () => {
  const testResults = [
    file('passed', 'passed', 'passed', 'pending'),
    file('failed', 'failed'),
    file('failed'),
  ]
  expect(countTests(JSON.stringify({ testResults }))).toEqual({ passed: 2, failed: 2, skipped: 1 })
})

it('countTests finds nothing in a report that was never written', () => {
  expect(countTests('')).toEqual({ passed: 0, failed: 0, skipped: 0 })
})

it('countTests takes the later of two results of a file', () => {
  const first = file('failed', 'passed', 'failed')
  const second = { ...file('passed', 'passed', 'passed'), name: first.name }
  const reports = [[first, file('passed', 'passed')], [second]].map((testResults) =>
    JSON.stringify({ testResults }),
  )
  expect(countTests(...reports)).toEqual({ passed: 3, failed: 0, skipped: 0 })
})

it('countTests counts a test of a file in two projects once, as skipped only where neither ran it', () => {
  const ran = (...tests: [string, string][]) => ({
    ...{ name: 'a.test.ts', status: 'passed' },
    assertionResults: tests.map(([fullName, status]) => ({ fullName, status })),
  })
  const testResults = [
    ran(['one', 'passed'], ['two', 'skipped'], ['three', 'skipped']),
    ran(['one', 'skipped'], ['two', 'passed'], ['three', 'skipped']),
  ]
  const report = JSON.stringify({ testResults })
  expect(countTests(report)).toEqual({ passed: 2, failed: 0, skipped: 1 })
  expect(countByFile(report).get('a.test.ts')).toMatchObject({ skipped: 1 })
})

it('failedTests names each test that failed with the beginning of its reason', () => {
  const failureMessages = ['AssertionError: expected 1 to be 2\n- 2\n+ 1\n    at file.test.ts:1:1\n    at b']
  const failed = { status: 'failed', fullName: 'sums are right', failureMessages }
  const passed = { status: 'passed', fullName: 'others' }
  const testResults = [{ name: 'a.test.ts', status: 'failed', assertionResults: [passed, failed] }]
  expect(failedTests(JSON.stringify({ testResults }))).toEqual([
    'sums are right\n  AssertionError: expected 1 to be 2\n  - 2\n  + 1',
  ])
})

it('failedFiles names the files that failed, unless they are many', () => {
  const passed = [{ status: 'passed' }, { status: 'skipped' }]
  const failed = [{ status: 'failed' }]
  const report = (count: number, ...others: object[]) =>
    JSON.stringify({
      testResults: [
        { name: '/root/ok.test.ts', status: 'passed', assertionResults: passed },
        ...Array.from({ length: count }, (_, at) => ({
          ...{ name: `/root/a/${at}.test.ts`, status: 'failed', assertionResults: failed },
        })),
        ...others,
      ],
    })
  expect(failedFiles(report(2), '/root')).toEqual(['a/0.test.ts', 'a/1.test.ts'])
  expect(failedFiles(report(13), '/root')).toEqual([])
  expect(failedFiles('', '/root')).toEqual([])
  expect(failedFiles(report(1), '/root', '/root/b.test.ts\n')).toEqual(['a/0.test.ts', 'b.test.ts'])
  expect(failedFiles(report(1), '/root', '\n')).toEqual([])
  const cutOff = { name: '/root/c.test.ts', status: 'passed', assertionResults: [{ status: 'pending' }] }
  const notBegun = { name: '/root/d.test.ts', status: 'passed', assertionResults: [] }
  expect(failedFiles(report(1, cutOff, notBegun), '/root', '\n')).toEqual([
    'a/0.test.ts',
    'c.test.ts',
    'd.test.ts',
  ])
})

it('filesOf names each file that left an error unhandled once', () => {
  expect(
    filesOf([{ VITEST_TEST_PATH: '/root/b.test.ts' }, { VITEST_TEST_PATH: '/root/b.test.ts' }, {}]),
  ).toEqual(['/root/b.test.ts', ''])
})
