import { createHash } from 'node:crypto'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { ReportProgress } from '../host/progress.ts'
import { makeWorkDirectory, publishDirectory, removeTree, switchCurrent } from '../host/publish-directory.ts'
import { inOwnNamespaces, runCommandOrFail } from '../host/run-command.ts'
import { type Criu, criuDirectory, findCriu, isUsable, probeCriuRoot } from './find-criu.ts'

/** The first Debian suite whose CRIU runs on kernels of 2025 and later. */
const SUITE = 'forky'
const PACKAGES = 'criu,libc6'
/** Raise when what is kept of the packages changes. */
const RECIPE_VERSION = 1
/** mmdebstrap says about this many lines; only the bar depends on it. */
const EXPECTED_LINES = 10

export interface InstallCriu {
  readonly dataDir: string
  readonly report?: ReportProgress
  readonly signal?: AbortSignal | undefined
}

/** Precondition: the caller holds the set-up lock of the data directory. */
export async function installCriu({ dataDir, report = () => {}, signal }: InstallCriu): Promise<Criu> {
  const found = await findCriu(dataDir)
  if (found !== undefined && isUsable(found)) return found
  const directory = criuDirectory(dataDir)
  await mkdir(directory, { recursive: true, mode: 0o711 })
  const work = await makeWorkDirectory(directory)
  try {
    const root = join(work, 'root')
    await extractPackages(root, report, signal)
    await keepOnlyWhatRuns(root)
    const criu = await verify(root)
    const final = join(directory, recipeHash(criu.version))
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

async function extractPackages(root: string, report: ReportProgress, signal: AbortSignal | undefined) {
  let lines = 0
  const mmdebstrap = ['mmdebstrap', '--variant=extract', `--include=${PACKAGES}`, SUITE, root]
  await runCommandOrFail(
    {
      // An out-of-date mirror still carries a CRIU that works; signatures are checked all the same.
      argv: inOwnNamespaces([...mmdebstrap, '--aptopt=Acquire::Check-Valid-Until "false"']),
      signal,
      onLine: (line) =>
        report({ percent: Math.min(90, (++lines / EXPECTED_LINES) * 90), doing: doing(line) }),
    },
    `getting CRIU from Debian ${SUITE}`,
  )
}

function doing(line: string): string {
  return line.replace(/^I: /, '').replace(/\.\.\.$/, '')
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

function recipeHash(version: string): string {
  const recipe = JSON.stringify([RECIPE_VERSION, SUITE, PACKAGES, version, process.arch])
  return createHash('sha256').update(recipe).digest('hex').slice(0, 16)
}
