import { readFile, writeFile } from 'node:fs/promises'
import { DormouseError } from '@dormouse/contracts'

/** Where the loader and its libraries are inside a burrow. */
export const LOADER_IN_TOOLS = 'ld.so'
export const LIBRARIES_IN_TOOLS = { x64: 'lib/x86_64', arm64: 'lib/aarch64' } as const

/** The loader that Debian's programs ask for, and the directory that it searches last. */
export const DEBIAN = {
  x64: { loader: '/lib64/ld-linux-x86-64.so.2', libraries: '/lib/x86_64-linux-gnu/' },
  arm64: { loader: '/lib/ld-linux-aarch64.so.1', libraries: '/lib/aarch64-linux-gnu/' },
} as const

export type Machine = keyof typeof DEBIAN

export function thisMachine(): Machine {
  if (process.arch === 'x64' || process.arch === 'arm64') return process.arch
  throw new DormouseError('host_unsupported', `There is no runtime for ${process.arch}.`)
}

/**
 * Makes glibc's loader search only the libraries under /.dormouse, and neither the cache nor the preload list of the
 * image: both may name libraries of another glibc, with which its programs crash. The lengths of these strings are
 * compiled in, so each replacement is as long as what it replaces.
 */
export async function patchLoader(path: string, machine: Machine): Promise<void> {
  const { libraries } = DEBIAN[machine]
  const elsewhere = `/usr${libraries.replace('linux', 'DORMO')}`
  await replaceStrings(path, [
    [`${libraries}\0/usr${libraries}\0`, `/.dormouse/${LIBRARIES_IN_TOOLS[machine]}/\0${elsewhere}\0`],
    ['\0/etc/ld.so.cache\0', '\0/.dormouse/cache\0'],
    ['\0/etc/ld.so.preload\0', '\0/.dormouse/preload\0'],
  ])
}

/** Makes a program use the loader under /.dormouse. */
export async function patchProgram(path: string, machine: Machine): Promise<void> {
  const { loader } = DEBIAN[machine]
  const replacement = `/.dormouse/${LOADER_IN_TOOLS}`.padEnd(loader.length, '\0')
  await replaceStrings(path, [[`${loader}\0`, `${replacement}\0`]])
}

async function replaceStrings(
  path: string,
  replacements: readonly (readonly [string, string])[],
): Promise<void> {
  const bytes = await readFile(path)
  for (const [from, to] of replacements) {
    if (Buffer.byteLength(from) !== Buffer.byteLength(to))
      throw new Error(`${from} and ${to} differ in length`)
    let at = bytes.indexOf(from, 0, 'latin1')
    if (at === -1)
      throw new DormouseError(
        'setup_failed',
        `The runtime for images cannot be made: ${path} has no "${from}".`,
      )
    for (; at !== -1; at = bytes.indexOf(from, at + 1, 'latin1')) bytes.write(to, at, 'latin1')
  }
  await writeFile(path, bytes)
}
