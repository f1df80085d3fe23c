import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { earlyReturns } from './early-returns.ts'
import { unhandledStatements } from './floating-promises.ts'
import { broken, brokenByTree, type SourceFile } from './rules.ts'
import { openProject } from './typed-project.ts'

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

describe('promises', () => {
  const declared =
    'export const one = async () => 1\nexport const two = () => 2\nexport declare const held: Disposable\n'
  const config = '{ "compilerOptions": { "noEmit": true, "lib": ["esnext"] } }'
  let directory: string
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'dormouse-promises-'))
    await writeFile(join(directory, 'tsconfig.json'), config)
    await writeFile(join(directory, 'a.ts'), declared)
  })
  afterEach(() => rm(directory, { recursive: true }))

  async function open(text: string) {
    await writeFile(join(directory, 'b.ts'), `import { held, one, two } from './a'\n${text}`)
    return openProject(join(directory, 'tsconfig.json'))
  }

  test('one of another package that nothing handles is found; handled ones are not', async () => {
    const handled = 'await one()\nvoid one()\none().catch(() => {}).finally(two)\none().then(two, two)\n'
    using project = await open(`two()\n${handled}one()\n`)
    expect(project.promises(unhandledStatements)).toEqual(['b.ts:7'])
  })

  test.each([
    ['in the scope of a `using`', 'using a = held\nreturn one()', 1],
    ['in a block below it', 'using a = held\nif (two()) {\nreturn one()\n}', 1],
    ['in one branch of a value', 'using a = held\nreturn two() ? await one() : one()', 1],
    ['in `try`', 'try {\nreturn one()\n} catch {}', 1],
    ['in `catch` before a `finally`', 'try {} catch {\nreturn one()\n} finally {}', 1],
    ['in `catch` without a `finally`', 'try {} catch {\nreturn one()\n}', 0],
    ['before a `using`', 'if (two()) return one()\nusing a = held', 0],
    ['in a function inside of the scope', 'using a = held\nawait run(async () => {\nreturn one()\n})', 0],
    ['awaited', 'using a = held\nreturn await one()', 0],
    ['of another type', 'using a = held\nreturn two()', 0],
  ])('a return %s: %#', async (_where, body, count) => {
    using project = await open(
      `declare const run: (work: () => Promise<number>) => Promise<number>\nasync function f() {\n${body}\n}\nvoid f()\nvoid held\nvoid run\n`,
    )
    expect(project.promises(earlyReturns)).toHaveLength(count)
  })
})
