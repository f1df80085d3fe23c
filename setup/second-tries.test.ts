import { afterEach, expect, test, vi } from 'vitest'
import SecondTries from './second-tries.mjs'

const before = process.exitCode
afterEach(() => {
  process.exitCode = before
  vi.restoreAllMocks()
})

/** What is said of a run with one file, and the status that it ends with. */
function judge(isFlaky: boolean, uncaughtIn: readonly string[]): { said: string; exitCode: unknown } {
  const module: Record<string, unknown> = { moduleId: '/a.test.ts', relativeModuleId: 'a.test.ts' }
  const test = {
    module,
    fullName: 'it',
    diagnostic: () => ({ flaky: isFlaky }),
    result: () => ({ errors: [{ message: 'too late' }] }),
  }
  module['children'] = { allTests: () => [test] }
  const log = vi.spyOn(console, 'log').mockImplementation(() => {})
  process.exitCode = undefined
  new SecondTries().onTestRunEnd(
    [module] as never,
    uncaughtIn.map((path) => ({ message: 'left', VITEST_TEST_PATH: path })) as never,
  )
  return { said: log.mock.calls.join('\n'), exitCode: process.exitCode }
}

test('nothing is said of a run in which every test passed at once', () => {
  expect(judge(false, [])).toEqual({ said: '', exitCode: undefined })
})

test('a second try is told with the reason of the first, and explains an error that nobody caught in its file', () => {
  const { said, exitCode } = judge(true, ['/a.test.ts'])
  expect(said).toMatch(/second try \(1\)[\s\S]*a\.test\.ts > it[\s\S]*too late/)
  expect(exitCode).toBeUndefined()
})

test.each([
  [false, '/a.test.ts'],
  [true, '/b.test.ts'],
])('an error that nobody caught fails the run otherwise (second try: %s, error in %s)', (isFlaky, path) => {
  const { said, exitCode } = judge(isFlaky, [path])
  expect(said).toContain(`${path}: left`)
  expect(exitCode).toBe(1)
})
