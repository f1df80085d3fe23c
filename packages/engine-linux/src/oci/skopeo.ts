import { DormouseError } from '@dormouse/contracts'
import { type CommandResult, runCommand, runCommandOrFail } from '../host/run-command.ts'
import { UID_BASE } from '../template/shifted-root.ts'
import type { OpenedNetwork } from './pull-network.ts'

/** No file of the host and no process belongs to it. Inside sandboxes it is `nobody`. */
export const PULL_UID = UID_BASE + 65_534

const NO_PROXY = ['NO_PROXY', 'no_proxy']

export interface RunSkopeo {
  readonly args: readonly string[]
  /** A directory of PULL_UID, for its settings and temporary files. */
  readonly home: string
  /** Where it runs; the host's network by default. */
  readonly network?: Pick<OpenedNetwork, 'launcher' | 'env'> | undefined
  readonly signal?: AbortSignal | undefined
  readonly onLine?: (line: string) => void
}

/** Starts a program that reads what strangers send: its command line goes behind. */
export const AS_PULL_USER = [
  'setpriv',
  `--reuid=${PULL_UID}`,
  `--regid=${PULL_UID}`,
  '--clear-groups',
  '--no-new-privs',
  // The kernel forgets this wish of runCommand when the user changes: the program would outlive a killed server.
  '--pdeathsig=KILL',
  '--',
] as const

/** Runs skopeo without privileges: it reads what strangers send. */
export async function runSkopeo({ args, home, network, signal, onLine }: RunSkopeo): Promise<CommandResult> {
  // Credentials and settings must not come from the environment of the server. Proxies may, unless it has its own.
  const unset = ['REGISTRY_AUTH_FILE', 'XDG_CONFIG_HOME', ...(network === undefined ? [] : NO_PROXY)]
  const set = [`HOME=${home}`, `XDG_RUNTIME_DIR=${home}`, `TMPDIR=${home}`, ...(network?.env ?? [])]
  const environment = [...unset.flatMap((name) => ['-u', name]), ...set]
  const argv = [
    ...(network?.launcher ?? []),
    'env',
    ...environment,
    ...AS_PULL_USER,
    'skopeo',
    ...args,
  ] as const
  return runCommand({ argv: argv as unknown as [string, ...string[]], signal, ...(onLine && { onLine }) })
}

let isInstalled = false
let installing: Promise<void> | undefined

/** Installs skopeo with the host's package manager when it is missing. Calls at the same time share one installation. */
export async function requireSkopeo(onLine: (line: string) => void): Promise<void> {
  if (isInstalled) return
  const { exitCode } = await runCommand({ argv: ['skopeo', '--version'] })
  isInstalled = exitCode === 0
  if (isInstalled) return
  onLine('Installing skopeo, which pulls images. This happens once.')
  installing ??= install().finally(() => {
    installing = undefined
  })
  await installing
}

async function install(): Promise<void> {
  const options = ['--yes', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=300']
  const argv = ['env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', 'install', ...options, 'skopeo'] as const
  try {
    const { exitCode } = await runCommand({ argv })
    if (exitCode === 0) return
    await runCommand({ argv: ['apt-get', 'update'] })
    await runCommandOrFail({ argv }, 'installing skopeo')
  } catch (cause) {
    throw new DormouseError('setup_failed', 'Images are pulled with skopeo, which could not be installed.', {
      hint: 'Install it on the host (Debian and Ubuntu: `apt-get install skopeo`), then try again.',
      cause,
    })
  }
}
