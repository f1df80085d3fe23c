import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { runCommand } from '../host/run-command.ts'

/** Where and how the host fetches Debian packages. Templates use the same settings. */
export interface AptSettings {
  /** Lines of a sources.list. Empty means Debian's own servers. */
  readonly sources: readonly string[]
  /** Lines of an apt.conf. */
  readonly options: readonly string[]
}

export const DEBIAN_KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
const HELPER = '/usr/lib/apt/apt-helper'
const PROBE_TIMEOUT_MS = 60_000
const UPDATE_TIMEOUT_MS = 120_000
/** Suites without -updates and -security. */
const ROLLING_SUITES = new Set(['sid', 'unstable', 'experimental'])
/**
 * apt options about reaching the mirror. Not proxies: the host makes a sandbox's connections and uses its own proxy.
 * Nothing that extends trust beyond Debian's keys.
 */
const PASSED_ON =
  /^Acquire::(Check-Date|Max-FutureTime|Min-ValidTime|Max-ValidTime|Retries|ForceIPv4|ForceIPv6|By-Hash|https?::(Timeout|Pipeline-Depth|Dl-Limit|AllowRedirect)) "[\w.-]*";$/

/**
 * How old a mirror may be. Suites expire by themselves, usually after a week, and mirrors of testing lag behind by
 * more.
 */
const MIRROR_MAX_AGE_SECONDS = 60 * 24 * 3600

/** Returns `Acquire::Min-ValidTime`: ours, or the host's if that is longer. */
export function minValidSeconds(options: readonly string[]): number {
  const ofHost = options.flatMap((line) => /^Acquire::Min-ValidTime "(\d+)";$/.exec(line)?.[1] ?? [])
  return Math.max(MIRROR_MAX_AGE_SECONDS, ...ofHost.map(Number))
}

export async function readAptSettings(options: {
  readonly suite: string
  readonly workDir: string
  readonly signal?: AbortSignal | undefined
}): Promise<AptSettings> {
  const dump = await runCommand({ argv: ['apt-config', 'dump'], signal: options.signal })
  const mirrors = findMirrors(await listTargets(options.signal))
  return {
    sources: (await hasSuite(mirrors, options)) ? sourceLines(mirrors, options.suite) : [],
    options: dump.stdout.split('\n').filter((line) => PASSED_ON.test(line)),
  }
}

async function listTargets(signal: AbortSignal | undefined): Promise<string> {
  const format = '$(ORIGIN)|$(LABEL)|$(REPO_URI)'
  const argv = ['apt-get', 'indextargets', '--format', format, 'Created-By: Packages'] as const
  const known = await runCommand({ argv, signal })
  if (known.stdout !== '') return known.stdout
  // apt names only the sources whose lists it has, and images of containers come without any.
  await runCommand({ argv: ['apt-get', 'update'], signal, timeoutMs: UPDATE_TIMEOUT_MS })
  return (await runCommand({ argv, signal })).stdout
}

interface Mirrors {
  readonly archive?: string
  readonly security?: string
}

/** Parses lines of `origin|label|uri`. Skips mirrors that need a password, which is not known inside. */
export function findMirrors(targets: string): Mirrors {
  const uris = new Map<string, string>()
  for (const line of targets.split('\n')) {
    const [origin, label = '', uri = ''] = line.split('|')
    if (origin !== 'Debian' || uris.has(label) || !URL.canParse(uri)) continue
    const { protocol, username, password } = new URL(uri)
    if (/^https?:$/.test(protocol) && username === '' && password === '') uris.set(label, uri)
  }
  const archive = uris.get('Debian')
  const security = uris.get('Debian-Security')
  return { ...(archive && { archive }), ...(security && { security }) }
}

/** The host may run another release than the template, and its mirror need not have every release. */
async function hasSuite(
  { archive, security }: Mirrors,
  { suite, workDir, signal }: { suite: string; workDir: string; signal?: AbortSignal | undefined },
): Promise<boolean> {
  if (archive === undefined || !existsSync(HELPER) || !existsSync(DEBIAN_KEYRING)) return false
  const needed = [`${archive}dists/${suite}/InRelease`]
  if (security !== undefined && !ROLLING_SUITES.has(suite))
    needed.push(`${security}dists/${suite}-security/InRelease`)
  const file = join(workDir, 'InRelease')
  for (const uri of needed) {
    const argv = [HELPER, 'download-file', uri, file] as const
    const { exitCode } = await runCommand({ argv, signal, timeoutMs: PROBE_TIMEOUT_MS })
    await rm(file, { force: true })
    if (exitCode !== 0) return false
  }
  return true
}

export function sourceLines({ archive, security }: Mirrors, suite: string): string[] {
  if (archive === undefined) return []
  const line = (uri: string, name: string) => `deb [signed-by=${DEBIAN_KEYRING}] ${uri} ${name} main`
  if (ROLLING_SUITES.has(suite)) return [line(archive, suite)]
  return [
    line(archive, suite),
    line(archive, `${suite}-updates`),
    line(security ?? 'http://security.debian.org/debian-security', `${suite}-security`),
  ]
}
