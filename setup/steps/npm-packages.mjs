import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { hashFiles, hashOf } from '../hash-inputs.mjs'

const NEEDED = [
  '.bin/tsc',
  '.bin/vitest',
  '.bin/biome',
  '@types/node',
  'zod',
  '@dormouse/engine-linux',
  '@dormouse/cli',
]

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
  run: ({ report, run }, { repoDir }) =>
    run({
      argv: ['npm', 'ci', '--no-audit', '--no-fund'],
      cwd: repoDir,
      onLine: (line) => report({ doing: line }),
    }),
}
