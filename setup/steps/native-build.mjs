import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { hashFiles, hashOf } from '../hash-inputs.mjs'

const NATIVE = 'packages/engine-linux/native'
const PROGRAMS = [
  'dormouse-init',
  'dormouse-shift',
  'dormouse-own',
  'dormouse-carry',
  'dormouse-layers',
  'dormouse-pages',
  'dormouse-scrub',
  'criu/libgnutls.so.30',
  'criu/libnftables.so.1',
  'libdormouse-enter.so',
  'libdormouse-guard.so',
  'seccomp-allow.bpf',
  'seccomp-base.bpf',
  'seccomp-deny.bpf',
]

/** @type {import('../run-steps.mjs').Step} */
export const nativeBuild = {
  id: 'native-build',
  title: 'Native programs',
  scope: 'repo',
  hint: 'The C sources do not compile here. See the output above; `./dormouse doctor` shows what the machine lacks.',
  inputs: ({ repoDir }) =>
    hashOf(process.arch, hashFiles(join(repoDir, NATIVE)), existsSync(headers(repoDir))),
  isInPlace: ({ repoDir }) => PROGRAMS.every((name) => existsSync(join(repoDir, NATIVE, 'build', name))),
  async run({ report, run, signal }, { repoDir }) {
    const make = /** @type {const} */ (['make', '-C', join(repoDir, NATIVE)])
    const onLine = (/** @type {string} */ line) => report({ doing: line })
    await run({ argv: [...make, 'all'], onLine })
    // Without the addons, sandboxes run without a network; `./dormouse doctor` reports what is missing.
    await run({ argv: [...make, 'addons', `NODE_API_HEADERS=${headers(repoDir)}`], onLine }).catch(() =>
      signal.throwIfAborted(),
    )
  },
}

/** @param {string} repoDir */
function headers(repoDir) {
  return join(repoDir, 'node_modules/node-api-headers/include')
}
