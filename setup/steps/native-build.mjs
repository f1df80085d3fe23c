import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { hashFiles, hashOf } from '../hash-inputs.mjs'

const NATIVE = 'packages/engine-linux/native'
const PROGRAMS = [
  'dormouse-init',
  'dormouse-shift',
  'dormouse-carry',
  'dormouse-layers',
  'dormouse-pages',
  'libdormouse-enter.so',
  'libdormouse-guard.so',
  'seccomp-allow.bpf',
  'seccomp-deny.bpf',
]

/** @type {import('../run-steps.mjs').Step} */
export const nativeBuild = {
  id: 'native-build',
  title: 'Native programs',
  scope: 'repo',
  hint: 'The C sources do not compile here. See the output above; `./dormouse doctor` shows what the machine lacks.',
  inputs: ({ repoDir }) => hashOf(process.arch, hashFiles(join(repoDir, NATIVE))),
  isInPlace: ({ repoDir }) => PROGRAMS.every((name) => existsSync(join(repoDir, NATIVE, 'build', name))),
  run: ({ report, run }, { repoDir }) =>
    run({ argv: ['make', '-C', join(repoDir, NATIVE)], onLine: (line) => report({ doing: line }) }),
}
