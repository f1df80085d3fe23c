import { spawnSync } from 'node:child_process'
import { accessSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { hashOf } from '../hash-inputs.mjs'

/** Debian package, and a file or program that shows on other distributions whether it is installed. */
const PACKAGES = [
  ['gcc', 'gcc'],
  ['make', 'make'],
  ['libc6-dev', '/usr/include/stdlib.h'],
  ['linux-libc-dev', '/usr/include/linux/sched.h'],
  ['libseccomp-dev', '/usr/include/seccomp.h'],
  ['mmdebstrap', 'mmdebstrap'],
  ['debian-archive-keyring', '/usr/share/keyrings/debian-archive-keyring.gpg'],
  ['gpg', 'gpg'],
  ['tar', 'tar'],
  ['util-linux', 'setpriv'],
  // For the tests of the guard: an allocator that depends on it.
  ['libjemalloc2', `/usr/lib/${process.arch === 'x64' ? 'x86_64' : 'aarch64'}-linux-gnu/libjemalloc.so.2`],
  // For the tests of SSH, and for `dormouse ssh`.
  ['openssh-client', 'ssh'],
  ['rsync', 'rsync'],
  // For the tests of the Python SDK: what it needs, and what builds it.
  ['python3-httpx', '/usr/lib/python3/dist-packages/httpx'],
  ['python3-websockets', '/usr/lib/python3/dist-packages/websockets'],
  ['python3-hatchling', '/usr/lib/python3/dist-packages/hatchling'],
]

/** @type {import('../run-steps.mjs').Step} */
export const systemPackages = {
  id: 'system-packages',
  title: 'System packages',
  scope: 'repo',
  hint: 'Check the network and the package sources of this machine (try `apt-get update`), then run this again.',
  inputs: () => hashOf(PACKAGES),
  isInPlace: () => missingPackages().length === 0,
  async run({ report, run, signal }) {
    const missing = missingPackages()
    if (missing.length === 0) return
    if (!isProgramThere('apt-get')) {
      throw new Error(
        `this machine has no apt-get, and these packages are missing (names in Debian): ${missing.join(', ')}. ` +
          'Install them with your package manager, then run this again',
      )
    }
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
    const onLine = (/** @type {string} */ line) => report({ doing: line })
    report({ percent: 0, doing: 'reading package lists' })
    await run({ argv: ['apt-get', 'update'], env, onLine, heldFds: [] }).catch(() => {
      // One broken package source must not stop the others; the installation fails if it matters.
      signal.throwIfAborted()
    })
    report({ percent: 30, doing: `installing ${missing.join(', ')}` })
    const install = ['install', '--yes', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=300']
    await run({ argv: ['apt-get', ...install, ...missing], env, onLine, heldFds: [] })
  },
}

function missingPackages() {
  if (!isProgramThere('dpkg-query'))
    return PACKAGES.filter(([, sign = '']) => !isThere(sign)).map(([name]) => name ?? '')
  const names = PACKAGES.map(([name]) => name ?? '')
  // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg-query has its own placeholders.
  const format = '${Package} ${db:Status-Status}\\n'
  const { stdout } = spawnSync('dpkg-query', ['-W', '-f', format, ...names], { encoding: 'utf8' })
  const installed = new Set(stdout.split('\n').filter((line) => line.endsWith(' installed')))
  return names.filter((name) => !installed.has(`${name} installed`))
}

/** @param {string} sign a program's name or the absolute path of a file */
function isThere(sign) {
  return sign.startsWith('/') ? isFileThere(sign) : isProgramThere(sign)
}

/** @param {string} program */
function isProgramThere(program) {
  return (process.env.PATH ?? '').split(delimiter).some((directory) => isFileThere(join(directory, program)))
}

/** @param {string} path */
function isFileThere(path) {
  try {
    accessSync(path)
    return true
  } catch {
    return false
  }
}
