import { expect, it } from 'vitest'
import { countTests } from './count-tests.mjs'

const file = (status: string, ...tests: string[]) => ({
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
