import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { cp, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { acornFile, guestNodeDir, guestPythonDir } from '@dormouse/guest'
import { publishDirectory } from './host/publish-directory.ts'
import { runCommandOrFail } from './host/run-command.ts'
import { makeOwnedDirectory, removeAbandoned } from './host/work-directory.ts'
import { guardLibrary, reseedAddon } from './native-programs.ts'
import { prepareRuntime } from './runtime/prepare-runtime.ts'
import { findTemplate } from './template/template-store.ts'

export const GUARD_IN_TOOLS = 'lib/libdormouse-guard.so'
/** The template whose Python and bash the runtime has. */
const RUNTIME_TEMPLATE = 'python'
/** Mount points below /.dormouse for directories that differ between burrows. */
const MOUNT_POINTS = ['run', 'memory', 'kdat']

/**
 * Makes the directory that burrows see read-only as /.dormouse: the guest's code, the guard, the
 * runtime and mount points. It is a
 * copy named by its content, so that an upgrade of the sources never changes files under a live or sleeping sandbox.
 */
export async function prepareGuestTools(dataDir: string): Promise<string> {
  const sources = await toolFiles()
  const template = await findTemplate(dataDir, RUNTIME_TEMPLATE)
  // Set-up makes the template first. Without it no sandbox can start anyway.
  const runtime = template && (await prepareRuntime(dataDir, template))
  const hash = createHash('sha256').update(MOUNT_POINTS.join())
  if (runtime !== undefined) hash.update(basename(runtime))
  for (const [target, source] of sources) hash.update(`${target}\0`).update(await readFile(source))
  const final = join(dataDir, 'tools', 'guest', hash.digest('hex').slice(0, 16))
  const place = { parent: dirname(final), prefix: '.building-' }
  await removeAbandoned(place)
  // Missing: this version of the tools was not installed yet.
  if (await stat(final).catch(() => undefined)) return final

  await mkdir(dirname(final), { recursive: true, mode: 0o711 })
  const work = await makeOwnedDirectory(place)
  if (runtime !== undefined) await linkTree(runtime, work)
  for (const name of MOUNT_POINTS) await mkdir(join(work, name))
  for (const [target, source] of sources) await cp(source, join(work, target))
  // Two servers with different data can start at once; the second finds the same content in place.
  await publishDirectory(work, final).catch(async (error: unknown) => {
    await rm(work, { recursive: true, force: true })
    if (!(await stat(final).catch(() => undefined))) throw error
  })
  return final
}

/** Own tools come first: what another host says must not become what this host gives to its sandboxes. */
export function guestToolsDir(dataDir: string, name: string): string {
  const own = join(dataDir, 'tools', 'guest', name)
  const fetched = fetchedToolsDir(dataDir, name)
  return !existsSync(own) && existsSync(fetched) ? fetched : own
}

/** Tools of another host, which snapshots need that were taken there. */
export function fetchedToolsDir(dataDir: string, name: string): string {
  return join(dataDir, 'tools', 'fetched', name)
}

/** The names of all tools that are here, own and fetched. */
export async function listGuestTools(dataDir: string): Promise<string[]> {
  const parents = ['guest', 'fetched'].map((kind) => join(dataDir, 'tools', kind))
  // Missing until the first ones are fetched.
  const names = await Promise.all(parents.map((parent) => readdir(parent).catch(() => [])))
  return [...new Set(names.flat())].filter((name) => !name.startsWith('.'))
}

/** Hard links: all versions of the tools share the files of one runtime. */
async function linkTree(source: string, target: string): Promise<void> {
  await runCommandOrFail({ argv: ['cp', '-alT', '--', source, target] }, 'installing the runtime')
}

/** Target below /.dormouse to source. */
async function toolFiles(): Promise<Map<string, string>> {
  // Addons are optional: without this one, copies of a Node kernel agree on their keys, which the kernel says.
  const reseed: [string, string][] = existsSync(reseedAddon)
    ? [['guest/dormouse_node/reseed.node', reseedAddon]]
    : []
  return new Map([
    ...(await filesBelow(guestPythonDir, '.py', 'guest')),
    ...(await filesBelow(guestPythonDir, '.r', 'guest')),
    ...(await filesBelow(guestNodeDir, '.mjs', 'guest/dormouse_node')),
    ...(await filesBelow(guestNodeDir, '.cjs', 'guest/dormouse_node')),
    ['guest/dormouse_node/acorn.mjs', acornFile],
    ...reseed,
    [GUARD_IN_TOOLS, guardLibrary],
  ])
}

async function filesBelow(source: string, ending: string, target: string): Promise<[string, string][]> {
  const entries = await readdir(source, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile() && entry.name.endsWith(ending))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((path) => [join(target, relative(source, path)), path])
}
