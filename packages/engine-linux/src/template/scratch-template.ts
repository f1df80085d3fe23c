import { chmod, chown, mkdir, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { publishDirectory } from '../host/publish-directory.ts'
import { makeOwnedDirectory } from '../host/work-directory.ts'
import { UID_BASE, UID_COUNT } from './shifted-root.ts'
import {
  getTemplateBuild,
  TEMPLATE_FORMAT_VERSION,
  type Template,
  type TemplateManifest,
  templateDirectory,
} from './template-store.ts'

/** The template below the layers of every image. It has no `current` build, so no list shows it. */
export const SCRATCH = 'scratch'
/** Raised when its content changes. Snapshots name it, so older builds stay. */
const SCRATCH_HASH = 'v1'

/** Mount points of burrows, with their modes. */
const DIRECTORIES = [
  ['.dormouse', 0o755],
  ['proc', 0o555],
  ['sys', 0o555],
  ['dev', 0o755],
  ['run', 0o755],
  ['run/shm', 0o1777],
  ['tmp', 0o1777],
] as const

export async function prepareScratch(dataDir: string): Promise<Template> {
  const final = join(templateDirectory(dataDir, SCRATCH), SCRATCH_HASH)
  // Missing until the first image is imported.
  if (!(await stat(final).catch(() => undefined))) await makeScratch(final)
  return getTemplateBuild(dataDir, { name: SCRATCH, hash: SCRATCH_HASH })
}

async function makeScratch(final: string): Promise<void> {
  await mkdir(dirname(final), { recursive: true, mode: 0o711 })
  const work = await makeOwnedDirectory({ parent: dirname(final), prefix: '.building-' })
  for (const [path, mode] of [['', 0o755], ...DIRECTORIES] as const) {
    const directory = join(work, 'rootfs', path)
    await mkdir(directory)
    await chmod(directory, mode)
    await chown(directory, UID_BASE, UID_BASE)
  }
  await writeFile(join(work, 'template.json'), `${JSON.stringify(describeScratch(), null, 2)}\n`)
  await publishDirectory(work, final).catch(async (error: unknown) => {
    await rm(work, { recursive: true, force: true })
    // Another server has made it meanwhile.
    if (!(await stat(final).catch(() => undefined))) throw error
  })
}

function describeScratch(): TemplateManifest {
  const description = { name: SCRATCH, suite: 'none', packages: [], commands: [], preload: [] }
  return {
    formatVersion: TEMPLATE_FORMAT_VERSION,
    name: SCRATCH,
    hash: SCRATCH_HASH,
    suite: 'none',
    description: { ...description, description: 'Mount points for images' },
    sizeBytes: 0,
    createdAt: new Date().toISOString(),
    uidBase: UID_BASE,
    uidCount: UID_COUNT,
  }
}
