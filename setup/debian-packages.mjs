import { spawnSync } from 'node:child_process'
import { accessSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { hashOf } from './hash-inputs.mjs'

/** Debian starts the services of packages that it installs, unless this program says 101. */
const SERVICE_POLICY = '/usr/sbin/policy-rc.d'
const NO_SERVICES = '#!/bin/sh\n# Dormouse installs packages at the moment.\nexit 101\n'

/**
 * A set-up step that installs packages of Debian. It starts none of their services.
 * @param {{
 *   id: string,
 *   title: string,
 *   packages: readonly (readonly [name: string, sign: string])[],
 *   prepare?: () => Promise<void>,
 * }} what
 *   `sign`: a file or program that shows on other distributions whether the package is installed
 *   `prepare`: called before missing packages are installed
 * @returns {import('./run-steps.mjs').Step}
 */
export function debianPackagesStep({ id, title, packages, prepare }) {
  return {
    id,
    title,
    scope: 'repo',
    hint: 'Check the network and the package sources of this machine (try `apt-get update`), then run this again.',
    inputs: () => hashOf(packages),
    isInPlace: () => missingFrom(packages).length === 0,
    run: async (tools) => {
      const missing = missingFrom(packages)
      if (missing.length > 0) await prepare?.()
      await installMissing(missing, tools)
    },
  }
}

/**
 * @param {readonly string[]} missing
 * @param {Parameters<import('./run-steps.mjs').Step['run']>[0]} tools
 */
async function installMissing(missing, { report, run, signal }) {
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
  await withoutServices(() => run({ argv: ['apt-get', ...install, ...missing], env, onLine, heldFds: [] }))
}

/** @param {() => Promise<unknown>} work */
async function withoutServices(work) {
  // A container has such a program already. One of ours was left by a set-up that was killed.
  const present = await readFile(SERVICE_POLICY, 'utf8').catch(() => NO_SERVICES)
  const isOurs = present === NO_SERVICES
  if (isOurs) await writeFile(SERVICE_POLICY, NO_SERVICES, { mode: 0o755 })
  try {
    await work()
  } finally {
    if (isOurs) await rm(SERVICE_POLICY, { force: true })
  }
}

/** @param {readonly (readonly [name: string, sign: string])[]} packages */
function missingFrom(packages) {
  if (!isProgramThere('dpkg-query'))
    return packages.filter(([, sign]) => !isThere(sign)).map(([name]) => name)
  const names = packages.map(([name]) => name)
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
