import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { compareVersions } from '../criu/find-criu.ts'
import { fingerprintSchema, mismatch, readFingerprint } from '../storage/fingerprint.ts'
import type { Manifest } from '../storage/manifest.ts'
import { getTemplateBuild, listTemplates, templateDirectory } from '../template/template-store.ts'
import type { SnapshotEngine } from './snapshot-engine.ts'

/** A build: the same hash built twice has the same packages, but not the same files to the byte. */
const buildSchema = z.strictObject({ name: z.string(), hash: z.string(), builtAt: z.string() })
const needsSchema = z.strictObject({
  template: buildSchema,
  /** Absent for a snapshot of files: a burrow of it boots. */
  processes: z
    .strictObject({ tools: z.string(), criuVersion: z.string(), fingerprint: fingerprintSchema })
    .optional(),
})
const abilitiesSchema = z.strictObject({
  templates: z.array(buildSchema),
  tools: z.array(z.string()),
  criuVersion: z.string(),
  fingerprint: fingerprintSchema,
})

export type Needs = z.output<typeof needsSchema>
export type Abilities = z.output<typeof abilitiesSchema>

export async function needsOf({ dataDir }: SnapshotEngine, manifest: Manifest): Promise<Needs> {
  const { name, hash, manifest: build } = await getTemplateBuild(dataDir, manifest.template)
  const template = { name, hash, builtAt: build.createdAt }
  if (manifest.kind === 'files') return { template }
  const { tools, criuVersion, fingerprint } = manifest
  return { template, processes: { tools, criuVersion, fingerprint } }
}

export async function abilitiesOf({ dataDir, dumper }: SnapshotEngine): Promise<Abilities> {
  const current = await listTemplates(dataDir)
  const builds = await Promise.all(
    current.map(async ({ name }) => {
      const hashes = await readdir(templateDirectory(dataDir, name), { withFileTypes: true })
      const found = hashes.filter((entry) => entry.isDirectory() && /^[0-9a-f]+$/.test(entry.name))
      return Promise.all(found.map((entry) => getTemplateBuild(dataDir, { name, hash: entry.name })))
    }),
  )
  const tools = await readdir(join(dataDir, 'tools', 'guest'))
  return {
    templates: builds.flat().map(({ name, hash, manifest }) => ({ name, hash, builtAt: manifest.createdAt })),
    tools: tools.filter((name) => !name.startsWith('.')),
    criuVersion: dumper.criuVersion,
    fingerprint: await readFingerprint(),
  }
}

/** Says why a host with these abilities cannot restore a snapshot with these needs; undefined when it can. */
export function problemOf(needs: unknown, abilities: unknown): string | undefined {
  const wanted = needsSchema.safeParse(needs)
  const present = abilitiesSchema.safeParse(abilities)
  if (!wanted.success || !present.success) return 'it has another version of the engine'
  const { template, processes } = wanted.data
  const { templates, tools, criuVersion, fingerprint } = present.data
  const isSame = (build: Needs['template']) =>
    build.hash === template.hash && build.builtAt === template.builtAt
  if (!templates.some((build) => build.name === template.name && isSame(build)))
    return `it lacks build ${template.hash} of template ${template.name} of ${template.builtAt}`
  if (processes === undefined) return undefined
  if (!tools.includes(processes.tools)) return `it lacks the guest tools ${processes.tools}`
  if (compareVersions(processes.criuVersion, criuVersion) > 0)
    return `its CRIU ${criuVersion} is older than ${processes.criuVersion}`
  return mismatch(processes.fingerprint, fingerprint)
}

/** Says why a host with these abilities cannot start from a template; undefined when it can. */
export function problemOfTemplate(name: string, abilities: unknown): string | undefined {
  const present = abilitiesSchema.safeParse(abilities)
  if (!present.success) return 'it has another version of the engine'
  return present.data.templates.some((build) => build.name === name)
    ? undefined
    : `it has no template ${name}`
}
