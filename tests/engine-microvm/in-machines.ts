import { relative } from 'node:path'
import { beforeEach, type RunnerTestCase } from 'vitest'
import { isChosen, whyNotFromInside } from './from-inside.ts'

/** Runs before every file of tests/isolation and tests/network that attacks from inside of machines. */
const areChosen = process.env['DORMOUSE_TEST_CHOSEN'] === '1'

beforeEach(({ task, skip }) => {
  const file = relative('tests', task.file.name)
  const name = fullName(task)
  const reason = whyNotFromInside(file, name)
  if (reason !== undefined) skip(reason)
  if (areChosen && !isChosen(file, name)) skip('not in the selection')
})

function fullName({ name, suite }: Pick<RunnerTestCase, 'name' | 'suite'>): string {
  const names = [name]
  for (let each = suite; each !== undefined; each = each.suite) names.unshift(each.name)
  return names.filter((part) => part !== '').join(' > ')
}
