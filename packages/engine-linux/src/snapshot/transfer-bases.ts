import { existsSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { ArrivingPart, BaseTransfer, PortablePart } from '@dormouse/engine'
import { fetchedToolsDir, guestToolsDir } from '../guest-tools.ts'
import { explainFullDisk } from '../host/explain-full-disk.ts'
import { publishDirectory } from '../host/publish-directory.ts'
import { makeOwnedDirectory } from '../host/work-directory.ts'
import { damaged, unusable } from '../storage/verify-snapshot.ts'
import { digitsOf, hashOfBuild, hashOfFetched } from '../template/template-build.ts'
import { listBuilds, type Template, templateDirectory } from '../template/template-store.ts'
import { type NamedBase, parseBaseKey } from './base-keys.ts'
import { checkFetchedBuild, checkFetchedTools, OF_BUILD } from './check-base.ts'
import { basesHeld, basesNeeded } from './portable-needs.ts'
import type { SnapshotEngine } from './snapshot-engine.ts'
import { pack, unpack } from './travel-archive.ts'

const FETCHING = '.fetching-'
/** Snapshots that are being made. */
const UNFINISHED_SNAPSHOTS = 'snapshots/.*'

/** Builds of templates and guest tools that travel between hosts, one archive each. */
export function baseTransfer({ dataDir }: Pick<SnapshotEngine, 'dataDir'>): BaseTransfer {
  return {
    neededBy: basesNeeded,
    heldBy: basesHeld,
    isHere: async (key) => (await findBase(dataDir, key)) !== undefined,
    export: (key) => exportBase(dataDir, key),
    import: (key, part) => importBase(dataDir, key, part),
  }
}

async function exportBase(dataDir: string, key: string): Promise<PortablePart> {
  const directory = await findBase(dataDir, key)
  if (directory === undefined) throw new DormouseError('not_found', `This host does not have ${key}.`)
  const isTools = parseBaseKey(key)?.kind === 'tools'
  const names = isTools ? ['.'] : [...OF_BUILD.keys()].filter((name) => existsSync(join(directory, name)))
  const exclude = isTools ? [] : [UNFINISHED_SNAPSHOTS]
  return { kind: 'archive', key, read: () => pack(directory, names, { exclude }) }
}

async function importBase(dataDir: string, key: string, part: ArrivingPart): Promise<void> {
  const base = parseBaseKey(key)
  if (base === undefined || part.kind !== 'archive') throw unusable(`${key} is of another version`)
  if ((await findBase(dataDir, key)) !== undefined) return
  const final = placeOf(dataDir, base)
  await mkdir(dirname(final), { recursive: true, mode: 0o711 })
  const work = await makeOwnedDirectory({ parent: dirname(final), prefix: FETCHING })
  try {
    await unpack(work, part)
    if (base.kind === 'tools') await checkFetchedTools(work)
    else await takeBuild(work, base)
    await publishDirectory(work, final)
  } catch (error) {
    await rm(work, { recursive: true, force: true })
    // Another server with the same data has fetched it meanwhile.
    if (!existsSync(final)) throw explainFullDisk(error)
  }
}

/** Checks a build that was unpacked, and gives it the hash by which this host calls it. */
async function takeBuild(work: string, base: Extract<NamedBase, { kind: 'template' }>): Promise<void> {
  const manifest = await checkFetchedBuild(work)
  const { name, hash, createdAt } = manifest
  if (name !== base.name || hashOfBuild(hash) !== base.hash || digitsOf(createdAt) !== base.digits)
    throw damaged('the depot has another template under the name of this one')
  const local = hashOfFetched({ name, hash: base.hash, builtAt: createdAt })
  await writeFile(join(work, 'template.json'), `${JSON.stringify({ ...manifest, hash: local }, null, 2)}\n`)
}

function placeOf(dataDir: string, base: NamedBase): string {
  if (base.kind === 'tools') return fetchedToolsDir(dataDir, base.name)
  return join(templateDirectory(dataDir, base.name), `${base.hash}.${base.digits}`)
}

async function findBase(dataDir: string, key: string): Promise<string | undefined> {
  const base = parseBaseKey(key)
  if (base === undefined) return undefined
  if (base.kind === 'template') {
    const build = (await listBuilds(dataDir)).find((one) => isNamed(one, base))
    return build && dirname(build.rootfs)
  }
  const directory = guestToolsDir(dataDir, base.name)
  return existsSync(directory) ? directory : undefined
}

function isNamed(
  { name, hash, manifest }: Template,
  base: Extract<NamedBase, { kind: 'template' }>,
): boolean {
  return name === base.name && hashOfBuild(hash) === base.hash && digitsOf(manifest.createdAt) === base.digits
}
