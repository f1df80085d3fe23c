import { access, readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { inOwnNamespaces, runCommand } from '../host/run-command.ts'
import { criuLibraries } from '../native-programs.ts'

/** Older versions fail on kernels of 2025 and later: see DESIGN §4.6. */
export const CRIU_MIN_VERSION = '4.2'
const CHECK_TIMEOUT_MS = 30_000

export interface Criu {
  readonly version: string
  /** The program and its first arguments; append the CRIU action. */
  readonly argv: readonly [string, ...string[]]
  /** The directory that a burrow sees read-only; `/` for the system's own CRIU. */
  readonly root: string
  /** 'ok', or what `criu check` complained about. */
  readonly check: string
}

/**
 * Returns the system's CRIU when it is new enough and its check passes on this kernel, otherwise the one that set-up
 * installed.
 */
export async function findCriu(dataDir: string): Promise<Criu | undefined> {
  const system = await probeCriu(['criu'], '/')
  if (system !== undefined && isUsable(system)) return system
  const installed = await findInstalledCriu(criuDirectory(dataDir))
  return installed ?? system
}

export function criuDirectory(dataDir: string): string {
  return join(dataDir, 'tools', 'criu')
}

export function isUsable(criu: Criu): boolean {
  return criu.check === 'ok' && compareVersions(criu.version, CRIU_MIN_VERSION) >= 0
}

/**
 * What a directory made by installCriu holds. CRIU starts three times as fast with the stand-ins for libraries that it
 * does not use. A build that does not work with them gets its own libraries.
 */
export async function probeCriuRoot(root: string): Promise<Criu | undefined> {
  const found = await findBundled(root)
  if (found === undefined) return undefined
  const { loader, libraries, program } = found
  const lean = await probeCriu([loader, '--library-path', `${criuLibraries}:${libraries}`, program], root)
  if (lean !== undefined && isUsable(lean)) return lean
  return probeCriu([loader, '--library-path', libraries, program], root)
}

export function compareVersions(left: string, right: string): number {
  const [a, b] = [left, right].map((version) => version.split('.').map(Number))
  for (let i = 0; i < Math.max(a!.length, b!.length); i++) {
    const difference = (a![i] ?? 0) - (b![i] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

async function findInstalledCriu(directory: string): Promise<Criu | undefined> {
  // Missing until set-up installs one.
  const root = await realpath(join(directory, 'current')).catch(() => undefined)
  return root === undefined ? undefined : probeCriuRoot(root)
}

async function probeCriu(argv: readonly [string, ...string[]], root: string): Promise<Criu | undefined> {
  const [version, check] = await Promise.all([
    runCommand({ argv: [...argv, '--version'], timeoutMs: CHECK_TIMEOUT_MS }),
    // `criu check` stops children of its own to try ptrace: they must end with it, however it ends.
    runCommand({ argv: inOwnNamespaces([...argv, 'check']), timeoutMs: CHECK_TIMEOUT_MS }),
  ])
  const number = /Version: ([\d.]+)/.exec(version.stdout)?.[1]
  if (version.exitCode !== 0 || number === undefined) return undefined
  return { version: number, argv, root, check: check.exitCode === 0 ? 'ok' : complaint(check) }
}

function complaint(check: { tail: readonly string[]; ending: string }): string {
  return check.tail.find((line) => line.includes('Error')) ?? check.tail.at(-1) ?? check.ending
}

/** Every architecture names its loader and its library directory differently, so both are looked up. */
async function findBundled(
  root: string,
): Promise<{ loader: string; libraries: string; program: string } | undefined> {
  const program = join(root, 'usr/sbin/criu')
  const loader =
    (await findEntry(join(root, 'usr/lib64'), /^ld-linux.*\.so\.\d+$/)) ??
    (await findEntry(join(root, 'usr/lib'), /^ld-linux.*\.so\.\d+$/))
  const libraries = await findEntry(join(root, 'usr/lib'), /-linux-gnu\w*$/)
  const exists = await access(program).then(
    () => true,
    () => false,
  )
  if (!exists || loader === undefined || libraries === undefined) return undefined
  return { loader, libraries, program }
}

async function findEntry(directory: string, pattern: RegExp): Promise<string | undefined> {
  // A directory that is missing holds no such file.
  const names = await readdir(directory).catch(() => [])
  const name = names.sort().find((entry) => pattern.test(entry))
  return name === undefined ? undefined : join(directory, name)
}
