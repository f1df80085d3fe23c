import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { hashFiles, hashOf } from '../hash-inputs.mjs'

const NEEDED = [
  '.bin/tsc',
  '.bin/vitest',
  '.bin/biome',
  '@types/node',
  'zod',
  '@dormouse/engine-linux',
  '@dormouse/cli',
  'commander',
  'node-api-headers',
  'dormouse',
  'ssh2',
]
/** npm prints the cause first and general advice last. */
const NPM_TAIL_LINES = 40

/** @type {import('../run-steps.mjs').Step} */
export const npmPackages = {
  id: 'npm-packages',
  title: 'npm packages',
  scope: 'repo',
  hint: 'Check the network and the npm settings of this machine (`npm ping`), then run this again.',
  inputs: ({ repoDir }) =>
    hashOf(
      process.versions.modules,
      process.arch,
      readFileSync(join(repoDir, 'package.json'), 'utf8'),
      readFileSync(join(repoDir, 'package-lock.json'), 'utf8'),
      hashFiles(join(repoDir, 'packages'), (path) => path.endsWith('package.json')),
    ),
  isInPlace: ({ repoDir }) => NEEDED.every((path) => existsSync(join(repoDir, 'node_modules', path))),
  async run({ report, run }, { repoDir }) {
    const began = join(repoDir, '.dormouse/npm-install-began')
    // npm keeps a package that it has unpacked only in part; after an interruption, everything is installed again.
    if (existsSync(began)) rmSync(join(repoDir, 'node_modules'), { recursive: true, force: true })
    mkdirSync(dirname(began), { recursive: true })
    writeFileSync(began, '')
    // Not `npm ci`: it refuses a lock file without the packages of other platforms, and a registry mirror may lack
    // those. This installs the versions in the lock file and does not change it. Packages may not run scripts on this
    // host: their scripts only look for a compiler (sqlite is prebuilt, and ssh2 works without its addon).
    await run({
      argv: ['npm', 'install', '--no-save', '--no-audit', '--no-fund', '--ignore-scripts'],
      cwd: repoDir,
      tailLines: NPM_TAIL_LINES,
      onLine: (line) => {
        if (!line.startsWith('npm warn')) report({ doing: line })
      },
    })
    rmSync(began)
  },
}
