import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { hashFile } from '../host/hash-file.ts'
import { runCommand, runCommandOrFail } from '../host/run-command.ts'
import { type CriuPin, choosePin, isSame, PIN_HINT } from './pins.ts'

/** Fetched with CRIU and the libraries that it is linked with: CRIU runs with the C library that it was built for. */
const BESIDES = 'libc6'

export interface FetchCriu {
  /** Line of a sources.list. */
  readonly source: string
  /** Accepts release files that are this much older than now: mirrors of testing lag behind. */
  readonly minValidSeconds: number
  readonly architecture: string
  readonly accepted: readonly CriuPin[]
  /** A .deb that the operator supplied instead of the mirror's. */
  readonly deb?: string | undefined
  /** An empty directory; the caller removes it. */
  readonly workDir: string
  readonly onLine?: (line: string) => void
  readonly signal?: AbortSignal | undefined
}

export interface FetchedPackage {
  readonly path: string
  readonly name: string
  readonly version: string
  readonly sha256: string
}

/**
 * Downloads CRIU and its libraries without unpacking them. Debian's signature covers all of them. Of CRIU itself only
 * an accepted build is used, by the SHA-256 of the downloaded file.
 */
export async function fetchCriu(fetch: FetchCriu): Promise<FetchedPackage[]> {
  const apt = await openPrivateApt(fetch)
  await apt.run('apt-get', ['update'])
  const { name, pin } = fetch.deb === undefined ? await ofMirror(apt, fetch) : await ofOperator(fetch)
  await apt.run('apt-get', ['install', '--download-only', '--yes', '--no-install-recommends', name, BESIDES])
  const files = (await readdir(apt.archives)).filter((file) => file.endsWith('.deb')).sort()
  const paths = files.map((file) => join(apt.archives, file))
  if (fetch.deb !== undefined) paths.push(fetch.deb)
  const packages = await Promise.all(paths.map((path) => describe(path, fetch.signal)))
  const criu = packages.filter((one) => one.name === 'criu')
  if (criu.length !== 1 || !criu.every((one) => isSame(one, pin)))
    throw new DormouseError('setup_failed', 'The CRIU that was downloaded is not the one that is accepted.', {
      hint: PIN_HINT,
      details: { downloaded: criu.map(({ version, sha256 }) => `${version}:${sha256}`) },
    })
  return packages
}

interface PrivateApt {
  readonly archives: string
  run(program: 'apt-get' | 'apt-cache', args: readonly string[]): Promise<string>
}

/** apt with its own lists, cache and package database; the host's settings for reaching the mirror apply. */
async function openPrivateApt(fetch: FetchCriu): Promise<PrivateApt> {
  const { workDir, source, minValidSeconds, signal, onLine } = fetch
  const archives = join(workDir, 'cache/archives')
  await mkdir(join(workDir, 'lists/partial'), { recursive: true })
  await mkdir(join(archives, 'partial'), { recursive: true })
  await writeFile(join(workDir, 'status'), '')
  await writeFile(join(workDir, 'sources.list'), `${source}\n`)
  const options = [
    `Dir::State=${workDir}`,
    `Dir::State::status=${join(workDir, 'status')}`,
    `Dir::State::lists=${join(workDir, 'lists')}`,
    `Dir::Cache=${join(workDir, 'cache')}`,
    `Dir::Etc::sourcelist=${join(workDir, 'sources.list')}`,
    'Dir::Etc::sourceparts=/dev/null',
    'Dir::Etc::preferences=/dev/null',
    'Dir::Etc::preferencesparts=/dev/null',
    'APT::Sandbox::User=root',
    'APT::Get::AllowUnauthenticated=false',
    'Acquire::Languages=none',
    'Acquire::AllowInsecureRepositories=false',
    'Acquire::Check-Valid-Until=true',
    `Acquire::Min-ValidTime=${minValidSeconds}`,
    `APT::Architecture=${fetch.architecture}`,
  ].flatMap((option) => ['-o', option])
  return {
    archives,
    async run(program, args) {
      const argv = [program, ...options, ...args] as const
      const { stdout } = await runCommandOrFail({ argv, signal, ...(onLine && { onLine }) }, 'getting CRIU')
      return stdout
    },
  }
}

async function ofMirror(
  apt: PrivateApt,
  { accepted, architecture }: FetchCriu,
): Promise<{ name: string; pin: CriuPin }> {
  // A mirror that offers nothing, or cannot be asked, leaves the pinned versions.
  const offered = parseOffers(await apt.run('apt-cache', ['show', 'criu']).catch(() => ''))
  const pin = choosePin(architecture, { accepted, offered })
  return { name: `criu=${pin.version}`, pin }
}

async function ofOperator({ deb = '', accepted, architecture, signal }: FetchCriu) {
  const { name, ...build } = await describe(deb, signal)
  if (name !== 'criu')
    throw new DormouseError('setup_failed', `DORMOUSE_CRIU_DEB names a package "${name}", not criu.`)
  return { name: deb, pin: choosePin(architecture, { accepted, offered: [build] }) }
}

/** Stanzas of `apt-cache show`. */
function parseOffers(listing: string): CriuPin[] {
  return listing.split(/\n{2,}/).flatMap((stanza) => {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(stanza)?.[1]
    const [version, sha256] = [field('Version'), field('SHA256')]
    return version === undefined || sha256 === undefined ? [] : [{ version, sha256 }]
  })
}

async function describe(path: string, signal: AbortSignal | undefined): Promise<FetchedPackage> {
  const { exitCode, stdout } = await runCommand({
    argv: ['dpkg-deb', '--show', '--showformat=$' + '{Package} $' + '{Version}', path],
    signal,
  })
  const [name, version] = stdout.trim().split(' ')
  if (exitCode !== 0 || name === undefined || version === undefined)
    throw new DormouseError('setup_failed', `${path} is not a Debian package.`)
  return { path, name, version, sha256: await hashFile(path) }
}
