import { existsSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { runCommandOrFail } from '@dormouse/engine-linux/for-engines'
import { QEMU } from './find-qemu.ts'

const LOADER = '/lib64/ld-linux-x86-64.so.2'
const FIRMWARE = '/usr/share/qemu'
/** The accelerators may be modules, in a directory beside the libraries. */
const LIBRARY_DIRECTORIES = ['/usr/lib', '/usr/lib/x86_64-linux-gnu', '/usr/lib64']
const ACCELERATOR = /^accel-.*-x86_64\.so$/
/** Where QEMU finds its libraries in its jail. */
export const JAILED_LIBRARIES = '/libraries'

type Entry = readonly [source: string, target: string]

let known: { readonly state: string; readonly files: Promise<readonly Entry[]> } | undefined

/** What QEMU opens of this host, and where: itself, its loader, its libraries and firmware. */
export async function qemuFiles(): Promise<readonly Entry[]> {
  const state = await installedState()
  if (known?.state === state) return known.files
  const files = listFiles()
  known = { state, files }
  files.catch(() => {
    if (known?.files === files) known = undefined
  })
  return files
}

/** Changes when a package brings another QEMU or another library. */
async function installedState(): Promise<string> {
  const changes = [QEMU, '/etc/ld.so.cache'].map(async (path) => {
    const found = await stat(path).catch(() => undefined)
    return found === undefined ? '-' : `${found.ino} ${found.mtimeMs}`
  })
  return (await Promise.all(changes)).join(', ')
}

async function listFiles(): Promise<readonly Entry[]> {
  const modules = await accelerators()
  const libraries = new Set((await Promise.all([QEMU, ...modules].map(librariesOf))).flat())
  const inPlace = [QEMU, LOADER, FIRMWARE, ...modules].map((path) => [path, path] as const)
  return [
    ...inPlace,
    ...[...libraries].map((path) => [path, join(JAILED_LIBRARIES, basename(path))] as const),
  ]
}

async function accelerators(): Promise<string[]> {
  const directories = LIBRARY_DIRECTORIES.map((directory) => join(directory, 'qemu')).filter(existsSync)
  const found = await Promise.all(
    directories.map(async (directory) =>
      (await readdir(directory))
        .filter((name) => ACCELERATOR.test(name))
        .map((name) => join(directory, name)),
    ),
  )
  return found.flat()
}

/** The loader names them one a line, as `NAME => PATH (ADDRESS)`. */
async function librariesOf(path: string): Promise<string[]> {
  const argv = [LOADER, '--list', path] as const
  const { stdout } = await runCommandOrFail({ argv }, 'listing the libraries of QEMU')
  return [...stdout.matchAll(/ => (\/\S+) \(/g)].map((match) => match[1] ?? '')
}
