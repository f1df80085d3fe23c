import { describe, expect, test } from 'vitest'
import { broken } from './rules.ts'

// A rule that can never be broken proves nothing: each gets one file that breaks it.
const offenders: Record<string, { path: string; text: string }> = {
  'no file is longer than 400 lines': { path: 'packages/engine/src/long.ts', text: 'x\n'.repeat(401) },
  'imports point inward': { path: 'packages/engine/src/a.ts', text: "import { b } from '@dormouse/server'" },
  'folders import only the folders below them': {
    path: 'packages/engine-linux/src/burrow/a.ts',
    text: "import { b } from '../snapshot/b.ts'",
  },
  'the SDK depends on nothing, not even for its types': {
    path: 'packages/sdk/src/a.ts',
    text: "import type { RunAnswer } from '@dormouse/contracts/http'",
  },
  'only the composition root names a concrete engine': {
    path: 'packages/server/src/http/route.ts',
    text: 'new LinuxEngine()',
  },
  'the environment is read in the config only': {
    path: 'packages/engine/src/a.ts',
    text: ['process', 'env.HOME'].join('.'),
  },
  'no file is named after what it is not': { path: 'packages/engine/src/utils.ts', text: '' },
  'index files list what they export': {
    path: 'packages/engine/src/index.ts',
    text: "export * from './a.ts'",
  },
  'no default exports': { path: 'packages/engine/src/a.ts', text: 'export default 1' },
  'a skipped test says why on the line above': {
    path: 'tests/a.test.ts',
    text: "test('a', () => {})\ntest." + "skip('b', () => {})",
  },
  'the compiler is never silenced': {
    path: 'packages/engine/src/a.ts',
    text: ['// @ts', 'ignore'].join('-'),
  },
  'no path of a developer’s machine': { path: 'README.md', text: ['cd /work', 'main'].join('/') },
}

describe('tidy rules', () => {
  test.each(Object.entries(broken))('%s: is noticed when broken', (rule, check) => {
    const offender = offenders[rule]
    expect(offender, `an offender for "${rule}"`).toBeDefined()
    expect(check(offender!)).not.toEqual([])
  })
})
