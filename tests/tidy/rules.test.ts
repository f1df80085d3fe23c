import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { floatingPromises } from './floating-promises.ts'
import { broken, brokenByTree, type SourceFile } from './rules.ts'

// A rule that can never be broken proves nothing: each gets one file that breaks it.
const offenders: Record<string, { path: string; text: string }> = {
  'no file is longer than 400 lines': { path: 'packages/engine/src/long.ts', text: 'x\n'.repeat(401) },
  'imports point inward': { path: 'packages/engine/src/a.ts', text: "import { b } from '@dormouse/server'" },
  'folders import only the folders below them': {
    path: 'packages/engine-linux/src/burrow/a.ts',
    text: "import { b } from '../snapshot/b.ts'",
  },
  'the SDK depends on nothing, not even for its types, but for adapters of frameworks': {
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
  'the Python kernel runs on Python 3.9': {
    path: 'packages/guest/python/dormouse_kernel/a.py',
    text: 'def a(b: str | None) -> None: ...',
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
  'a retried test says why on the line above': {
    path: 'tests/a.test.ts',
    text: ['test("a", { re', 'try: 1 }, () => {})'].join(''),
  },
  'functions have at most 60 lines': {
    path: 'packages/engine/src/a.ts',
    text: `const a = () => {\n${'  a()\n'.repeat(60)}}\n`,
  },
  'comments and prose have at most 120 columns': {
    path: 'packages/engine/src/a.ts',
    text: `// ${'word '.repeat(25)}`,
  },
  'the compiler is never silenced': {
    path: 'packages/engine/src/a.ts',
    text: ['// @ts', 'ignore'].join('-'),
  },
  'no path of a developer’s machine': { path: 'README.md', text: ['cd /work', 'main'].join('/') },
}

const offendingTrees: Record<string, readonly SourceFile[]> = {
  'each package declares what it imports, and imports what it declares': [
    { path: 'packages/a/package.json', text: '{ "name": "a", "dependencies": { "unused": "1" } }' },
    { path: 'packages/a/src/a.ts', text: "import { z } from 'zod'" },
  ],
  'every dependency is explained': [
    { path: 'packages/a/package.json', text: '{ "name": "a", "dependencies": { "zod": "1" } }' },
    { path: 'docs/dependencies.md', text: '| zod-form |' },
  ],
  'functions of Python have at most 60 lines': [
    { path: 'python/a.py', text: `def a():\n${'    a()\n'.repeat(61)}` },
  ],
  'what is exported is used by another file': [
    { path: 'packages/a/src/a.ts', text: 'export const used = 1\nexport function unused() {}' },
    { path: 'packages/a/src/b.ts', text: "import { used } from './a.ts'" },
  ],
}

describe('tidy rules', () => {
  test.each(Object.entries(broken))('%s: is noticed when broken', (rule, check) => {
    const offender = offenders[rule]
    expect(offender, `an offender for "${rule}"`).toBeDefined()
    expect(check(offender!)).not.toEqual([])
  })

  test.each(Object.entries(brokenByTree))('%s: is noticed when broken', (rule, check) => {
    const offender = offendingTrees[rule]
    expect(offender, `an offender for "${rule}"`).toBeDefined()
    expect(check(offender!)).not.toEqual([])
  })

  test('an import that is not declared and a declaration that is not used are both noticed', () => {
    const [rule = ''] = Object.keys(offendingTrees)
    expect(brokenByTree[rule]!(offendingTrees[rule]!)).toEqual([
      'packages/a/package.json does not declare zod',
      'packages/a/package.json declares unused, which no source imports',
    ])
  })
})

const line = 'word '.repeat(26).trimEnd()

describe('lines may be longer than 120 columns', () => {
  const check = broken['comments and prose have at most 120 columns']!

  test.each([
    ['in a table', 'a.md', `| ${line} |`],
    ['in a code block', 'a.md', `\`\`\`\n${line}\n\`\`\``],
    ['for a link that cannot be broken', 'a.md', `see https://example.com/${'x'.repeat(120)}`],
    ['in code', 'packages/a/src/a.ts', `const text = '${line}'`],
  ])('%s', (_where, path, text) => {
    expect(check({ path, text })).toEqual([])
  })

  test('and prose after a code block is checked again', () => {
    const text = `\`\`\`\n${line}\n\`\`\`\n${line}`
    expect(check({ path: 'a.md', text })).toEqual(['a.md:4: 129 columns'])
  })
})

test('a suite may be longer than 60 lines, the tests and functions in it may not', () => {
  const check = broken['functions have at most 60 lines']!
  const long = `() => {\n${'  a()\n'.repeat(70)}}`
  expect(check({ path: 'a.test.ts', text: `function suite() {\n  describe('a', ${long})\n}` })).toEqual([])
  expect(check({ path: 'a.test.ts', text: `describe('a', () => {\n  test('b', ${long})\n})` })).not.toEqual(
    [],
  )
})

test('a promise of another package that nothing handles is found; handled ones are not', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'dormouse-floating-'))
  try {
    const handled = 'await one()\nvoid one()\none().catch(() => {}).finally(two)\none().then(two, two)\n'
    await writeFile(join(directory, 'tsconfig.json'), '{ "compilerOptions": { "noEmit": true } }')
    await writeFile(join(directory, 'a.ts'), 'export const one = async () => 1\nexport const two = () => 2\n')
    await writeFile(join(directory, 'b.ts'), `import { one, two } from './a'\ntwo()\n${handled}one()\n`)
    expect(floatingPromises(join(directory, 'tsconfig.json'))).toEqual(['b.ts:7'])
  } finally {
    await rm(directory, { recursive: true })
  }
})
