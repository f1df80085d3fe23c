import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { earlyReturns } from './early-returns.ts'
import { unhandledStatements } from './floating-promises.ts'
import { NOT_YET } from './not-yet.ts'
import { broken, brokenByTree, LAYERS, type SourceFile } from './rules.ts'
import { openProject } from './typed-project.ts'

/** Their names say what is in the folder. */
const FEW_FILES = 6

const root = fileURLToPath(new URL('../../', import.meta.url))

// Tracked files and new ones alike, so that a rule is broken here before it is broken in a commit.
const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], { cwd: root })
const files: SourceFile[] = listed
  .toString()
  .split('\n')
  .filter((path) => /\.(tsx?|css|mjs|py|c|h|md|json|sh)$|^dormouse$|Makefile$|^\.ci\//.test(path))
  .filter((path) => existsSync(join(root, path)) && basename(path) !== 'package-lock.json')
  .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }))

describe('tidy', () => {
  test('the list of files is not empty', () => {
    expect(files.length).toBeGreaterThan(50)
  })

  test.each(Object.entries(broken))('%s', (rule, check) => {
    expect(without(NOT_YET[rule], files.flatMap(check))).toEqual([])
  })

  test.each(Object.entries(brokenByTree))('%s', (rule, check) => {
    expect(without(NOT_YET[rule], check(files))).toEqual([])
  })

  test('no promise floats, and none leaves a function before what guards it has ended', () => {
    using project = openProject(join(root, 'tests/tidy/tsconfig.json'))
    expect(project.promises(unhandledStatements)).toEqual([])
    expect(project.promises(earlyReturns)).toEqual([])
  })

  test('every package and boundary folder says what lives in it', () => {
    const packages = files
      .map(({ path }) => path)
      .filter((path) => /^packages\/[^/]+\/package\.json$/.test(path))
    const layers = Object.entries(LAYERS)
      .flatMap(([parent, names]) => names.map((name) => `${parent}/${name}`))
      .filter((folder) => files.filter(({ path }) => dirname(path) === folder).length > FEW_FILES)
    const silent = [...packages.map((path) => dirname(path)), ...layers].filter(
      (folder) => !existsSync(join(root, folder, 'README.md')),
    )
    expect(silent).toEqual([])
  })
})

function without(excused: readonly string[] = [], found: readonly string[]): string[] {
  return found.filter((one) => !excused.some((beginning) => one.startsWith(beginning)))
}
