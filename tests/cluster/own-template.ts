import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { Layout } from '../../packages/engine-linux/src/host/layout.ts'
import { testDataDir } from '../test-data-dir.ts'

const run = promisify(execFile)

/** What sandboxes of these tests do without. The rest is a whole root, a fifth of the size. */
const LEFT_OUT = [
  ...['numpy', 'pandas', 'scipy', 'sklearn', 'sympy', 'matplotlib', 'mpl_toolkits', 'fontTools'].map(
    (name) => `usr/lib/python3/dist-packages/${name}`,
  ),
  ...['usr/libexec', 'usr/include', 'usr/share/doc', 'usr/share/locale', 'usr/share/fonts', 'usr/share/perl'],
  ...['usr/lib/git-core', 'usr/lib/llvm', 'var/lib/apt', 'usr/share/vim'],
]
const LIBRARIES = 'usr/lib'
const LIBRARIES_LEFT_OUT = /^(?:gcc|llvm-.*|libLLVM.*)$/
/** Says which host has built the root. */
export const BUILT_BY = '/etc/built-by'

/**
 * Makes a data directory as a host has it that was set up by itself: with a build of the template `python` of its own,
 * whose hash is that of the others, and tools of its own. The other tools are links.
 */
export async function makeOwnTemplate(dataDir: string, builtBy: string, builtAt: Date): Promise<string> {
  const build = await realpath(join(testDataDir, 'templates/python/current'))
  const own = join(dataDir, 'templates/python', basename(build))
  const rootfs = join(own, 'rootfs')
  await mkdir(own, { recursive: true, mode: 0o711 })
  // Hard links, where the file system allows: what differs is written anew.
  const copy = (how: string) => run('cp', [how, '--', join(build, 'rootfs'), rootfs])
  await copy('-al').catch(async () => {
    await rm(rootfs, { recursive: true, force: true })
    await copy('-a')
  })
  for (const path of LEFT_OUT) await rm(join(rootfs, path), { recursive: true, force: true })
  const machine = (await readdir(join(rootfs, LIBRARIES))).filter((name) => name.endsWith('-linux-gnu'))
  for (const directory of [LIBRARIES, ...machine.map((name) => join(LIBRARIES, name))])
    for (const name of await readdir(join(rootfs, directory)))
      if (LIBRARIES_LEFT_OUT.test(name)) await rm(join(rootfs, directory, name), { recursive: true })
  await writeFile(join(rootfs, BUILT_BY), builtBy)
  await run('chown', ['--reference', rootfs, join(rootfs, BUILT_BY)])
  await writeFile(join(own, 'template.json'), await describe(build, builtAt))
  await symlink(basename(build), join(dataDir, 'templates/python/current'))
  await mkdir(join(dataDir, 'tools'))
  for (const name of await readdir(join(testDataDir, 'tools')))
    if (!['guest', 'runtime', 'fetched'].includes(name))
      await symlink(join(testDataDir, 'tools', name), join(dataDir, 'tools', name))
  return dataDir
}

/** Also what an engine made that saved the template. */
export async function removeOwnTemplate(dataDir: string): Promise<void> {
  await rm(dataDir, { recursive: true, force: true })
  await rm(new Layout(dataDir, dataDir).runDir, { recursive: true, force: true })
}

async function describe(build: string, builtAt: Date): Promise<string> {
  const manifest = JSON.parse(await readFile(join(build, 'template.json'), 'utf8'))
  const description = { ...manifest.description, preload: [] }
  return JSON.stringify({ ...manifest, description, createdAt: builtAt.toISOString() })
}
