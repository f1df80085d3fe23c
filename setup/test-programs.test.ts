import { expect, it } from 'vitest'
import { testPrograms } from './test-programs.mjs'

it('`test` passes its arguments to vitest; with JSON, only the report of vitest is on stdout', () => {
  const programs = (isJson: boolean) =>
    testPrograms(['tests/x'], { isJson }).map(({ argv, isNote }) => [argv.join(' '), isNote])
  expect(programs(false)).toEqual([
    ['biome check --error-on-warnings .', false],
    ['tsc -p setup', false],
    ['vitest run tests/x', false],
  ])
  expect(programs(true)).toEqual([
    ['biome check --error-on-warnings .', true],
    ['tsc -p setup', true],
    ['vitest run --reporter=json tests/x', false],
  ])
})
