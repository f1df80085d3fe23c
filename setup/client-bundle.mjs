import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** What the bundle is made of. tsc writes its notes anew whenever it has built one of these. */
const PACKAGES = ['cli', 'sdk', 'mcp', 'contracts']

/** @param {string} repoDir */
export function clientBundlePaths(repoDir) {
  const directory = join(repoDir, 'packages/cli/dist/client-bundle')
  return { directory, entry: join(directory, 'index.js'), stamp: join(directory, 'made-of.json') }
}

/**
 * The commands of the client in few files: Node 20 takes longer to find and read the sixty that they are written in than to do what most of
 * them do. undefined when there is none, or something was built since.
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
 * Which builds of the packages are there.
 * @param {string} repoDir
 */
export function builds(repoDir) {
  const notes = PACKAGES.map((name) => statSync(join(repoDir, 'packages', name, 'tsconfig.tsbuildinfo')))
  return JSON.stringify(notes.map(({ mtimeMs, size }) => [mtimeMs, size]))
}
