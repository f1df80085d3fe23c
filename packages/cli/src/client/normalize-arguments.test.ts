import { Option } from 'commander'
import { expect, test } from 'vitest'
import { withSeparator } from './normalize-arguments.ts'

const options = [new Option('-u, --user <name>', ''), new Option('--json', '')]

test.each([
  ['box ls -l', 'box -- ls -l'],
  ['box -- ls -l', 'box -- ls -l'],
  ['box -u root ls -l', 'box -u root -- ls -l'],
  ['-u root --json box ls --json', '-u root --json box -- ls --json'],
  ['box --user=root ls', 'box --user=root -- ls'],
  ['box git checkout -- file', 'box -- git checkout -- file'],
  ['box', 'box'],
])('%s', (typed, expected) => {
  expect(withSeparator(typed.split(' '), { options }).join(' ')).toBe(expected)
})
