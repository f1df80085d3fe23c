import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { burrowLimitsSchema, DormouseError, newSandboxId } from '@dormouse/contracts'
import { bootBurrow } from '../burrow/boot-burrow.ts'
import { type SnapshotPaths, snapshotPaths } from '../burrow/layout.ts'
import type { BurrowHost } from '../burrow/start-burrow.ts'
import type { Criu } from '../criu/find-criu.ts'
import { removeTree } from '../host/publish-directory.ts'
import { FileMemory } from '../host/remember-file.ts'
import type { Template } from '../template/template-store.ts'
import { readFingerprint } from './fingerprint.ts'
import { type Manifest, readManifest, SNAPSHOT_FORMAT_VERSION } from './manifest.ts'
import { takeSnapshot, UNFINISHED } from './take-snapshot.ts'

/** Importing a large library on a slow disk, once per template. */
const PRELOAD_TIMEOUT_MS = 300_000

export interface TemplateSnapshotParts {
  readonly template: Template
  readonly toolsDir: string
  readonly criu: Criu
}

/** The snapshot that sandboxes of this template start from, if it was made for this host and these tools. */
export async function findTemplateSnapshot(
  parts: TemplateSnapshotParts,
): Promise<{ paths: SnapshotPaths; manifest: Manifest } | undefined> {
  const paths = await templateSnapshotPaths(parts)
  const manifest = await manifests.get(paths.manifest, async () =>
    existsSync(paths.manifest) ? readManifest(paths.manifest) : undefined,
  )
  return manifest && { paths, manifest }
}

/** Templates that sandboxes are being made from; more only cost reading again. */
const REMEMBERED_MANIFESTS = 64
const manifests = new FileMemory<Manifest | undefined>(REMEMBERED_MANIFESTS)

/**
 * Boots the template once, imports what its description says, and saves it.
 * Pre: the host's state directory is the data directory: the snapshot's files come from there.
 */
export async function makeTemplateSnapshot(host: BurrowHost, parts: TemplateSnapshotParts): Promise<void> {
  const { template, toolsDir, criu } = parts
  const paths = await templateSnapshotPaths(parts)
  await mkdir(dirname(paths.dir), { recursive: true, mode: 0o711 })
  const limits = burrowLimitsSchema.parse({ cpus: 4 })
  const request = { sandboxId: newSandboxId(), template: template.name }
  const burrow = await bootBurrow(host, { request, limits, template, toolsDir })
  try {
    const { preload } = template.manifest.description
    const options = { signal: AbortSignal.timeout(PRELOAD_TIMEOUT_MS) }
    const result = (await burrow.guest.call('context.preload', { modules: preload }, options)) as {
      failed: string[]
    }
    if (result.failed.length > 0) {
      throw new DormouseError(
        'setup_failed',
        `Template ${template.name} cannot import ${result.failed.join(', ')}.`,
      )
    }
    await takeSnapshot(host, {
      burrow,
      criu,
      toolsDir,
      into: paths.dir,
      layersDir: host.layout.templateLayersDir,
    })
  } catch (error) {
    await burrow.destroy()
    throw error
  }
}

/** What an interrupted attempt left. */
export async function removeUnfinished(template: Template): Promise<void> {
  const parent = join(dirname(template.rootfs), 'snapshots')
  for (const name of await readdir(parent).catch(() => [])) {
    if (name.startsWith(UNFINISHED)) await removeTree(join(parent, name))
  }
}

/** Raised when what is saved of a template changes in a way that the rest of the name does not show. */
const TEMPLATE_SNAPSHOT_VERSION = 2

/** Named by all that would make it unusable or wrong if it changed. */
async function templateSnapshotPaths({
  template,
  toolsDir,
  criu,
}: TemplateSnapshotParts): Promise<SnapshotPaths> {
  const key = createHash('sha256')
    .update(
      JSON.stringify([
        SNAPSHOT_FORMAT_VERSION,
        TEMPLATE_SNAPSHOT_VERSION,
        basename(toolsDir),
        criu.version,
        await readFingerprint(),
      ]),
    )
    .digest('hex')
    .slice(0, 16)
  return snapshotPaths(join(dirname(template.rootfs), 'snapshots', key))
}
