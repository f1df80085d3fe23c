import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** The packages in the bundle. tsc rewrites the build info of each package that it builds. */
const PACKAGES = ['cli', 'sdk', 'mcp', 'contracts', 'async']

/** @param {string} repoDir */
export function clientBundlePaths(repoDir) {
  const directory = join(repoDir, 'packages/cli/dist/client-bundle')
  return { directory, entry: join(directory, 'index.js'), stamp: join(directory, 'made-of.json') }
}

/**
 * The entry of the bundle of client commands: finding and reading their sixty source files would take Node.js longer
 * than most of them run. Undefined when there is no bundle, or one of its packages was built since.
 * @param {string} repoDir
 */
export function findClientBundle(repoDir) {
  const { entry, stamp } = clientBundlePaths(repoDir)
  try {
    return readFileSync(stamp, 'utf8') === builds(repoDir) ? entry : undefined
  } catch {
    return undefined
  }
}

/**
 * Identifies the current builds of the packages.
 * @param {string} repoDir
 */
export function builds(repoDir) {
  const notes = PACKAGES.map((name) => statSync(join(repoDir, 'packages', name, 'tsconfig.tsbuildinfo')))
  return JSON.stringify(notes.map(({ mtimeMs, size }) => [mtimeMs, size]))
}
