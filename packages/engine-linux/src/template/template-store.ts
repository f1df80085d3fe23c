import { readdir, readFile, realpath } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { DormouseError, type Isolation, type Materials, parseInput } from '@dormouse/contracts'
import { z } from 'zod'
import { FileCache } from '../host/file-cache.ts'
import { removeTree } from '../host/publish-directory.ts'
import { templateDescriptionSchema, templateNameSchema } from './description.ts'
import { readMaterials } from './materials.ts'
import { hashOfFetched, isLocalHash, type TemplateBuild } from './template-build.ts'

export const TEMPLATE_FORMAT_VERSION = 1

const templateManifestSchema = z.strictObject({
  formatVersion: z.literal(TEMPLATE_FORMAT_VERSION),
  name: templateNameSchema,
  hash: z.string(),
  suite: z.string(),
  description: templateDescriptionSchema,
  sizeBytes: z.number().int().nonnegative(),
  createdAt: z.iso.datetime(),
  /** The host uid of root inside, and how many uids follow it. */
  uidBase: z.number().int(),
  uidCount: z.number().int(),
})

export type TemplateManifest = z.output<typeof templateManifestSchema>

export interface Template {
  readonly name: string
  readonly hash: string
  /** Absolute, with `current` resolved: it stays valid when a newer build becomes current. */
  readonly rootfs: string
  readonly manifest: TemplateManifest
}

export function templateDirectory(dataDir: string, name: string): string {
  return join(dataDir, 'templates', name)
}

/** The current build of every template, by name. */
export async function listTemplates(dataDir: string): Promise<Template[]> {
  const names = await readdir(join(dataDir, 'templates')).catch(emptyWhenAbsent)
  const valid = names.filter((name) => templateNameSchema.safeParse(name).success).sort()
  const found = await Promise.all(valid.map((name) => findTemplate(dataDir, name)))
  return found.filter((template) => template !== undefined)
}

/** Returns undefined when no build of it has finished. A manifest that cannot be read is an error, not "absent". */
export async function findTemplate(dataDir: string, name: string): Promise<Template | undefined> {
  parseInput(templateNameSchema, name, 'template')
  const current = join(templateDirectory(dataDir, name), 'current')
  const directory = await realpath(current).catch(undefinedWhenAbsent)
  return directory === undefined ? undefined : readTemplate(directory)
}

export async function getTemplate(dataDir: string, name: string): Promise<Template> {
  const template = await findTemplate(dataDir, name)
  if (template !== undefined) return template
  throw new DormouseError('template_not_found', `There is no template "${name}"`, {
    details: { template: name },
  })
}

/** The isolation that its description asks for; undefined when there is no such template. */
export async function isolationOfTemplate(dataDir: string, name: string): Promise<Isolation | undefined> {
  if (!templateNameSchema.safeParse(name).success) return undefined
  return (await findTemplate(dataDir, name))?.manifest.description.isolation
}

/** Returns the packages of the current build; undefined when they were not recorded. Throws `template_not_found`. */
export async function readTemplateMaterials(dataDir: string, name: string): Promise<Materials | undefined> {
  const { rootfs } = await getTemplate(dataDir, name)
  return readMaterials(dirname(rootfs))
}

/** All builds that are here, of any template: own ones and those of other hosts. */
export async function listBuilds(dataDir: string): Promise<Template[]> {
  const names = await readdir(join(dataDir, 'templates')).catch(emptyWhenAbsent)
  const valid = names.filter((name) => templateNameSchema.safeParse(name).success)
  const found = valid.map(async (name) => {
    const directory = templateDirectory(dataDir, name)
    const entries = await readdir(directory, { withFileTypes: true })
    const hashes = entries.filter((entry) => entry.isDirectory() && isLocalHash(entry.name))
    return Promise.all(hashes.map((entry) => readTemplate(join(directory, entry.name))))
  })
  return (await Promise.all(found)).flat().filter((build) => build !== undefined)
}

/** Finds a build, whether this host has made it or fetched it. */
export async function findBuild(dataDir: string, wanted: TemplateBuild): Promise<Template | undefined> {
  const directory = templateDirectory(dataDir, wanted.name)
  const own = await readTemplate(join(directory, wanted.hash))
  if (own?.manifest.createdAt === wanted.builtAt) return own
  return readTemplate(join(directory, hashOfFetched(wanted)))
}

/** Removes all builds. Pre: no sandbox and no snapshot uses one of them. */
export async function removeTemplate(dataDir: string, name: string): Promise<void> {
  parseInput(templateNameSchema, name, 'template')
  await removeTree(templateDirectory(dataDir, name))
}

/** Returns one build of a template, current or not. Throws `snapshot_unusable`: only snapshots refer to a build. */
export async function getTemplateBuild(
  dataDir: string,
  { name, hash }: { name: string; hash: string },
): Promise<Template> {
  const template = await readTemplate(join(templateDirectory(dataDir, name), hash))
  if (template !== undefined) return template
  throw new DormouseError(
    'snapshot_unusable',
    `The snapshot cannot be restored: build ${hash} of template ${name} is gone.`,
  )
}

/** Builds in use at the same time. More than this only costs reading them again. */
const REMEMBERED_BUILDS = 64
const builds = new FileCache<Template | undefined>(REMEMBERED_BUILDS)

/** Returns undefined when the directory or its manifest does not exist. */
export function readTemplate(directory: string): Promise<Template | undefined> {
  return builds.get(join(directory, 'template.json'), () => parseTemplate(directory))
}

async function parseTemplate(directory: string): Promise<Template | undefined> {
  const text = await readFile(join(directory, 'template.json'), 'utf8').catch(undefinedWhenAbsent)
  if (text === undefined) return undefined
  const manifest = parseManifest(text, directory)
  return { name: manifest.name, hash: manifest.hash, rootfs: join(directory, 'rootfs'), manifest }
}

function parseManifest(text: string, directory: string): TemplateManifest {
  try {
    return templateManifestSchema.parse(JSON.parse(text))
  } catch (cause) {
    throw new DormouseError(
      'setup_failed',
      `The template build ${basename(directory)} has a damaged template.json`,
      {
        hint: `Remove ${directory} and run \`./dormouse up\` again.`,
        cause,
      },
    )
  }
}

function undefinedWhenAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

function emptyWhenAbsent(error: NodeJS.ErrnoException): string[] {
  if (error.code === 'ENOENT') return []
  throw error
}
