import { expect, test } from 'vitest'
import { readDurations } from './test-durations.mjs'

test('files that took long are listed, longest first, without the directory of the repository', () => {
  const took = (name: string, seconds: number) => ({
    name: `/repo/${name}`,
    startTime: 0,
    endTime: seconds * 1000,
  })
  const report = {
    testResults: [
      ...[took('tests/b.test.ts', 12), took('tests/short.test.ts', 1), took('a.test.ts', 40)],
      // By another project.
      took('a.test.ts', 7),
    ],
  }
  const durations = readDurations(JSON.stringify(report), '/repo')
  expect(Object.entries(durations)).toEqual([
    ['a.test.ts', 40],
    ['tests/b.test.ts', 12],
  ])
})
