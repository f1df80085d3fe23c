import { createHash } from 'node:crypto'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { ReportProgress } from '../host/progress.ts'
import { makeWorkDirectory, publishDirectory, removeTree, switchCurrent } from '../host/publish-directory.ts'
import { inOwnNamespaces, runCommandOrFail } from '../host/run-command.ts'
import { DEBIAN_KEYRING, minValidSeconds, readAptSettings } from '../template/host-apt.ts'
import { type FetchedPackage, fetchCriu } from './fetch-criu.ts'
import { type Criu, criuDirectory, findCriu, isUsable, probeCriuRoot } from './find-criu.ts'
import { CRIU_PINS, type CriuPin } from './pins.ts'

/** The first Debian suite whose CRIU runs on kernels of 2025 and later. */
const SUITE = 'forky'
const DEFAULT_SOURCE = `deb [signed-by=${DEBIAN_KEYRING}] http://deb.debian.org/debian ${SUITE} main`
/** Raise when the set of files kept from the packages changes. */
const RECIPE_VERSION = 2
/** apt prints about this many lines; only the progress bar depends on it. */
const EXPECTED_LINES = 60

export interface InstallCriu {
  readonly dataDir: string
  /** A build that the operator accepts in addition to the pinned ones. */
  readonly pin?: CriuPin | undefined
  /** A .deb of CRIU that the operator supplied; it must be an accepted build. */
  readonly deb?: string | undefined
  readonly report?: ReportProgress
  readonly signal?: AbortSignal | undefined
}

/** Pre: the caller holds the set-up lock of the data directory. */
export async function installCriu(install: InstallCriu): Promise<Criu> {
  const { dataDir } = install
  const found = await findCriu(dataDir)
  if (found !== undefined && isUsable(found)) return found
  const directory = criuDirectory(dataDir)
  await mkdir(directory, { recursive: true, mode: 0o711 })
  const work = await makeWorkDirectory(directory)
  try {
    const root = join(work, 'root')
    const packages = await fetchPackages(work, install)
    await unpack(packages, root, install.signal)
    await keepOnlyWhatRuns(root)
    const criu = await verify(root)
    await recordPackages(root, packages)
    const final = join(directory, recipeHash(criu.version, packages))
    await removeTree(final)
    await publishDirectory(root, final)
    await switchCurrent(final)
  } finally {
    await removeTree(work)
  }
  const installed = await findCriu(dataDir)
  if (installed === undefined)
    throw new DormouseError('internal', 'CRIU vanished right after it was installed')
  return installed
}

async function fetchPackages(work: string, { report = () => {}, signal, pin, deb }: InstallCriu) {
  const workDir = join(work, 'apt')
  await mkdir(workDir)
  const { stdout } = await runCommandOrFail(
    { argv: ['dpkg', '--print-architecture'], signal },
    'asking for the architecture',
  )
  const architecture = stdout.trim()
  const { sources, options } = await readAptSettings({ suite: SUITE, workDir, signal })
  let lines = 0
  return fetchCriu({
    source: sources[0] ?? DEFAULT_SOURCE,
    minValidSeconds: minValidSeconds(options),
    architecture,
    accepted: [...(CRIU_PINS[architecture] ?? []), ...(pin === undefined ? [] : [pin])],
    deb,
    workDir,
    signal,
    onLine: (line) =>
      report({ percent: Math.min(90, (++lines / EXPECTED_LINES) * 90), doing: withoutAddress(line) }),
  })
}

async function unpack(
  packages: readonly FetchedPackage[],
  root: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  await mkdir(root)
  for (const { path, name } of packages)
    await runCommandOrFail(
      { argv: inOwnNamespaces(['dpkg-deb', '--extract', path, root]), signal },
      `unpacking ${name}`,
    )
}

/** For `./dormouse doctor`, and for operators who want to know what runs here. */
async function recordPackages(root: string, packages: readonly FetchedPackage[]): Promise<void> {
  const list = packages.map(({ name, version, sha256 }) => ({ name, version, sha256 }))
  await writeFile(join(root, 'packages.json'), `${JSON.stringify(list, null, 2)}\n`, { mode: 0o644 })
}

/** Hides the address of a mirror, as the rest of set-up does. */
function withoutAddress(line: string): string {
  return line.replace(/\bhttps?:\/\/\S+/g, 'the mirror')
}

async function keepOnlyWhatRuns(root: string): Promise<void> {
  const unneeded = [
    'usr/share',
    'usr/include',
    'usr/bin',
    'usr/lib/python3',
    'etc',
    'var',
    'run',
    'tmp',
    'dev',
  ]
  for (const path of unneeded) await removeTree(join(root, path))
  for (const name of await readdir(join(root, 'usr/lib'))) {
    const path = join(root, 'usr/lib', name, 'gconv')
    if (name.includes('-linux-gnu')) await removeTree(path)
  }
}

async function verify(root: string): Promise<Criu> {
  const criu = await probeCriuRoot(root)
  if (criu === undefined) {
    throw new DormouseError('setup_failed', `Debian ${SUITE} gave a CRIU that does not start on this machine`)
  }
  if (isUsable(criu)) return criu
  throw new DormouseError(
    'setup_failed',
    `CRIU ${criu.version} does not work on this kernel: ${criu.check}`,
    {
      hint: 'Sandboxes need a kernel with checkpoint/restore support (CONFIG_CHECKPOINT_RESTORE). See `./dormouse doctor`.',
    },
  )
}

function recipeHash(version: string, packages: readonly FetchedPackage[]): string {
  const digests = packages.map(({ sha256 }) => sha256)
  const recipe = JSON.stringify([RECIPE_VERSION, SUITE, digests, version, process.arch])
  return createHash('sha256').update(recipe).digest('hex').slice(0, 16)
}
