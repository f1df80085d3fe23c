import { createHash } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { mkdir, readdir, rename } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import {
  burrowLimitsSchema,
  DormouseError,
  hasErrorCode,
  newSandboxId,
  newSnapshotId,
} from '@dormouse/contracts'
import { bootBurrow } from '../burrow/boot-burrow.ts'
import type { FailureLog } from '../host/failure-log.ts'
import { FileCache } from '../host/file-cache.ts'
import { type SnapshotPaths, snapshotPaths } from '../host/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { readFingerprint } from '../storage/fingerprint.ts'
import {
  type FullManifest,
  type Manifest,
  readManifest,
  SNAPSHOT_FORMAT_VERSION,
} from '../storage/manifest.ts'
import { UNFINISHED } from '../storage/publish-snapshot.ts'
import type { Template } from '../template/template-store.ts'
import type { Dumper } from './dumper.ts'
import { packSnapshot } from './pack-snapshot.ts'
import { rehearse } from './rehearse.ts'
import type { SnapshotHost } from './snapshot-host.ts'
import { takeSnapshot } from './take-snapshot.ts'

/** Enough to import a large library from a slow disk. Happens once per template. */
const PRELOAD_TIMEOUT_MS = 300_000

export interface TemplateSnapshotParts {
  readonly template: Template
  readonly toolsDir: string
  readonly dumper: Dumper
}

/** Finds the snapshot that sandboxes of this template start from, if there is one for this host and these tools. */
export async function findTemplateSnapshot(
  parts: TemplateSnapshotParts,
  failures: FailureLog,
): Promise<{ paths: SnapshotPaths; manifest: FullManifest } | undefined> {
  const paths = await templateSnapshotPaths(parts)
  try {
    const manifest = await manifests.get(paths.manifest, () => readManifest(paths.manifest))
    return manifest.kind === 'full' ? { paths, manifest } : undefined
  } catch (error) {
    // Without a snapshot its sandboxes boot, until set-up makes a new one.
    if (!hasErrorCode(error, 'not_found'))
      failures.report(
        'template',
        error,
        { template: parts.template.name },
        'a template snapshot cannot be read',
      )
    return undefined
  }
}

/** Templates in use; a manifest beyond this is only read again. */
const CACHED_MANIFESTS = 64
const manifests = new FileCache<Manifest>(CACHED_MANIFESTS)

/**
 * Boots the template once, imports the modules that its description lists, and saves it.
 * Pre: the host's state directory is the data directory: the snapshot's files come from there.
 */
export async function makeTemplateSnapshot(host: SnapshotHost, parts: TemplateSnapshotParts): Promise<void> {
  const { template, toolsDir, dumper } = parts
  const paths = await templateSnapshotPaths(parts)
  await mkdir(dirname(paths.dir), { recursive: true, mode: 0o711 })
  // Found there but not readable: damaged.
  if (existsSync(paths.dir)) await remove(paths.dir)
  const limits = burrowLimitsSchema.parse({ cpus: 4 })
  const request = { sandboxId: newSandboxId(), template: template.name }
  const burrow = await bootBurrow(host, { request, limits, template, toolsDir })
  try {
    const { preload } = template.manifest.description
    const signal = AbortSignal.timeout(PRELOAD_TIMEOUT_MS)
    const failed = await burrow.guest.contexts.preload(preload, { signal })
    if (failed.length > 0)
      throw new DormouseError('setup_failed', `Template ${template.name} cannot import ${failed.join(', ')}.`)
    await rehearse(burrow)
    const unpacked = snapshotPaths(join(dirname(paths.dir), `${UNFINISHED}${newSnapshotId()}`))
    const { manifest, leftover, ended } = await takeSnapshot(host, {
      burrow,
      dumper,
      toolsDir,
      into: unpacked.dir,
      layersDir: host.layout.templateLayersDir,
    })
    await ended
    await removeTree(leftover)
    await packSnapshot(host, parts, { from: unpacked, manifest, into: paths.dir })
    await removeTree(unpacked.dir)
    await removeFormer(paths)
  } catch (error) {
    await burrow.destroy()
    throw error
  }
}

/**
 * Removes snapshots of this template that were made for other versions of the host or of our tools, except the last
 * one, for an operator who goes back one version. Sandboxes made from them have links to their memory files. Their
 * layers stay: snapshots in any state directory may refer to them, and they hold no more than what a boot writes.
 */
async function removeFormer(current: SnapshotPaths): Promise<void> {
  const parent = dirname(current.dir)
  const found = (await readdir(parent))
    .map((name) => join(parent, name))
    .filter((dir) => dir !== current.dir)
    .map((dir) => ({
      dir,
      made: statSync(snapshotPaths(dir).manifest, { throwIfNoEntry: false })?.mtimeMs ?? 0,
    }))
    .sort((one, other) => other.made - one.made)
  for (const { dir } of found.slice(FORMER_KEPT)) await remove(dir)
}

async function remove(dir: string): Promise<void> {
  const doomed = join(dirname(dir), `${UNFINISHED}${basename(dir)}`)
  await rename(dir, doomed)
  await removeTree(doomed)
}

const FORMER_KEPT = 1

/** Removes what an interrupted attempt left. */
export async function removeUnfinished(template: Template): Promise<void> {
  const parent = join(dirname(template.rootfs), 'snapshots')
  // Missing until the first snapshot of the template is made.
  for (const name of await readdir(parent).catch(() => [])) {
    if (name.startsWith(UNFINISHED)) await removeTree(join(parent, name))
  }
}

/** Raised when template snapshots change in a way that the rest of the name does not show. */
const TEMPLATE_SNAPSHOT_VERSION = 6

/** The name depends on everything that would make the snapshot unusable or wrong if it changed. */
async function templateSnapshotPaths({
  template,
  toolsDir,
  dumper,
}: TemplateSnapshotParts): Promise<SnapshotPaths> {
  const key = createHash('sha256')
    .update(
      JSON.stringify([
        SNAPSHOT_FORMAT_VERSION,
        TEMPLATE_SNAPSHOT_VERSION,
        basename(toolsDir),
        dumper.criuVersion,
        await readFingerprint(),
      ]),
    )
    .digest('hex')
    .slice(0, 16)
  return snapshotPaths(join(dirname(template.rootfs), 'snapshots', key))
}
