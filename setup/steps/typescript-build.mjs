import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { clientBundlePaths } from '../client-bundle.mjs'
import { hashFiles, hashOf } from '../hash-inputs.mjs'

const ENTRIES = ['index', 'setup', 'client/index']

/** @type {import('../run-steps.mjs').Step} */
export const typescriptBuild = {
  id: 'typescript-build',
  title: 'TypeScript build',
  scope: 'repo',
  hint: 'The sources do not compile. Fix the errors above, then run this again.',
  inputs: ({ repoDir }) =>
    hashOf(
      readFileSync(join(repoDir, 'package-lock.json'), 'utf8'),
      ['tsconfig.json', 'tsconfig.base.json'].map((file) => readFileSync(join(repoDir, file), 'utf8')),
      hashFiles(join(repoDir, 'packages'), isSource),
      readFileSync(join(repoDir, 'setup/make-client-bundle.mjs'), 'utf8'),
    ),
  isInPlace: ({ repoDir }) =>
    existsSync(clientBundlePaths(repoDir).entry) &&
    existsSync(join(repoDir, 'packages/page/dist/index.html')) &&
    readdirSync(join(repoDir, 'packages')).every((name) => isBuilt(join(repoDir, 'packages', name))),
  run: async ({ run }, { repoDir }) => {
    // Forced, because tsc does not notice outputs that were removed.
    await run({
      argv: [join(repoDir, 'node_modules/.bin/tsc'), '-b', '--force', '--pretty', 'false'],
      cwd: repoDir,
    })
    await run({ argv: [process.execPath, join(repoDir, 'setup/make-client-bundle.mjs')], cwd: repoDir })
    await run({ argv: [process.execPath, join(repoDir, 'packages/page/build.mjs')], cwd: repoDir })
  },
}

/** @param {string} path */
function isSource(path) {
  if (path.endsWith('.test.ts')) return false
  if (path.endsWith('package.json') || path.endsWith('tsconfig.json')) return true
  return /\.tsx?$|\/page\/(src\/.*\.(css|html|svg)|build\.mjs)$/.test(path)
}

/** @param {string} packageDir */
function isBuilt(packageDir) {
  return ENTRIES.every(
    (entry) =>
      !existsSync(join(packageDir, 'src', `${entry}.ts`)) ||
      existsSync(join(packageDir, 'dist', `${entry}.js`)),
  )
}
