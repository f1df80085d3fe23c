import { lstat, readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { GUARD_IN_TOOLS } from '../guest-tools.ts'
import { snapshotPaths } from '../host/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { runCommandOrFail } from '../host/run-command.ts'
import { PageWorker } from '../image/page-worker.ts'
import { readManifest } from '../storage/manifest.ts'
import { damaged, listFiles } from '../storage/verify-snapshot.ts'
import { UID_BASE, UID_COUNT } from '../template/shifted-root.ts'
import { readTemplate, type TemplateManifest } from '../template/template-store.ts'

/**
 * What a build consists of, and of what type it is. With the snapshots, memory of the template need not be fetched for
 * each sandbox.
 */
export const OF_BUILD = new Map<string, 'file' | 'directory'>([
  ['template.json', 'file'],
  ['rootfs', 'directory'],
  ['materials.json', 'file'],
  ['snapshots', 'directory'],
])
const SNAPSHOT_NAME = /^[0-9a-f]{16}$/
const UID_LAST = UID_BASE + UID_COUNT - 1

/** Tests of find(1). */
const DEVICE = ['-type', 'b', '-o', '-type', 'c'] as const
const outside = (id: string) => ['(', `-${id}`, `-${UID_BASE}`, '-o', `-${id}`, `+${UID_LAST}`, ')']
const OWNER_OUTSIDE = ['uid', 'gid'].flatMap((id) => [...outside(id), '-o'])
/** Some tools are copies of files of a template, with their owners. */
const OWNER_OF_NONE = ['uid', 'gid'].flatMap((id) => ['!', `-${id}`, '0', ...outside(id), '-o'])
const RAISES_RIGHTS = ['-type', 'f', '-perm', '/6000', '-o'] as const
const NOT_PLAIN = ['!', '-type', 'f', '!', '-type', 'd'] as const

/**
 * Checks the directory of a build that another host has sent: what is wrong with it must not reach files of this host.
 * Snapshots of the template that are not whole are removed: without them, memory of the template is fetched.
 */
export async function checkFetchedBuild(directory: string): Promise<TemplateManifest> {
  for (const name of await readdir(directory)) await requireType(directory, name)
  const template = await readTemplate(directory)
  if (template === undefined) throw damaged('the depot has nothing of its template')
  const { uidBase, uidCount } = template.manifest
  if (uidBase !== UID_BASE || uidCount !== UID_COUNT) throw damaged('its template is for other user ids')
  await refuse(template.rootfs, [...OWNER_OUTSIDE, ...DEVICE])
  await checkSnapshots(join(directory, 'snapshots'))
  return template.manifest
}

/** The same for guest tools. The host reads the guard in them, so it must be a file of theirs. */
export async function checkFetchedTools(directory: string): Promise<void> {
  await refuse(directory, [...OWNER_OF_NONE, ...RAISES_RIGHTS, ...DEVICE])
  const guard = join(await realpath(directory), GUARD_IN_TOOLS)
  const isFile = await lstat(guard)
    .then((found) => found.isFile())
    .catch(() => false)
  if (!isFile || (await realpath(guard)) !== guard) throw damaged('its guest tools have no guard')
}

async function requireType(directory: string, name: string): Promise<void> {
  const found = await lstat(join(directory, name))
  const type = OF_BUILD.get(name)
  if (type === undefined || !(type === 'file' ? found.isFile() : found.isDirectory()))
    throw damaged(`the build of its template has an entry that is not of a build: ${JSON.stringify(name)}`)
}

/** Throws when a test of find(1) is true for a file of the tree. */
async function refuse(root: string, tests: readonly string[]): Promise<void> {
  const argv: [string, ...string[]] = ['find', root, '(', ...tests, ')', '-print', '-quit']
  const { stdout } = await runCommandOrFail({ argv }, 'checking what another host has sent')
  if (stdout !== '') throw damaged('it stands on files with owners, modes or types that no host makes')
}

async function checkSnapshots(parent: string): Promise<void> {
  // A template without them is as good.
  const names = await readdir(parent).catch(() => [])
  if (names.length === 0) return
  await refuse(parent, NOT_PLAIN)
  await using worker = new PageWorker()
  for (const name of names) {
    const isWhole = SNAPSHOT_NAME.test(name) && (await isSnapshotWhole(join(parent, name), worker))
    if (!isWhole) await removeTree(join(parent, name))
  }
}

/** Its memory files are linked into snapshots by their checksums, which are not compared again. */
async function isSnapshotWhole(directory: string, worker: PageWorker): Promise<boolean> {
  const paths = snapshotPaths(directory)
  try {
    const manifest = await readManifest(paths.manifest)
    if (manifest.kind !== 'full') return false
    const files = listFiles(paths, manifest)
    const sums = await worker.sum(files.map(({ path }) => path))
    return files.every(({ checksum }, index) => sums[index]?.checksum === checksum)
  } catch {
    return false
  }
}
