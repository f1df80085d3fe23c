import { z } from 'zod'
import { compareVersions } from '../criu/find-criu.ts'
import { listGuestTools } from '../guest-tools.ts'
import { fingerprintSchema, mismatch, readFingerprint } from '../storage/fingerprint.ts'
import type { Manifest } from '../storage/manifest.ts'
import { unusable } from '../storage/verify-snapshot.ts'
import { hashOfBuild, type TemplateBuild } from '../template/template-build.ts'
import { findBuild, getTemplateBuild, listBuilds, type Template } from '../template/template-store.ts'
import { baseOfTemplate, baseOfTools } from './base-keys.ts'
import type { SnapshotEngine } from './snapshot-engine.ts'

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
  const template = buildOf(await getTemplateBuild(dataDir, manifest.template))
  if (manifest.kind === 'files') return { template }
  const { tools, criuVersion, fingerprint } = manifest
  return { template, processes: { tools, criuVersion, fingerprint } }
}

export async function abilitiesOf({ dataDir, dumper }: SnapshotEngine): Promise<Abilities> {
  return {
    templates: (await listBuilds(dataDir)).map(buildOf),
    tools: await listGuestTools(dataDir),
    criuVersion: dumper.criuVersion,
    fingerprint: await readFingerprint(),
  }
}

function buildOf({ name, hash, manifest }: Template): TemplateBuild {
  return { name, hash: hashOfBuild(hash), builtAt: manifest.createdAt }
}

/**
 * What the manifest of a snapshot from another host calls its template here. Without needs the host has sent only what
 * is on all hosts. Throws `snapshot_unusable` when this host lacks the build.
 */
export async function localTemplateOf(
  dataDir: string,
  { name, hash }: Manifest['template'],
  needs: unknown,
): Promise<Manifest['template']> {
  if (needs === undefined) return { name, hash }
  const wanted = needsSchema.safeParse(needs).data?.template
  if (wanted?.name !== name || hashOfBuild(wanted.hash) !== hashOfBuild(hash))
    throw unusable('its needs are those of another snapshot')
  const build = await findBuild(dataDir, { ...wanted, hash: hashOfBuild(wanted.hash) })
  if (build === undefined) throw unusable(`${lackOf(wanted)} (this host)`)
  return { name, hash: build.hash }
}

/** The bases that a snapshot with these needs stands on. */
export function basesNeeded(needs: unknown): string[] {
  const { data } = needsSchema.safeParse(needs)
  if (data === undefined) return []
  const { template, processes } = data
  return [baseOfTemplate(template), ...(processes === undefined ? [] : [baseOfTools(processes.tools)])]
}

/** The bases that a host with these abilities has. */
export function basesHeld(abilities: unknown): string[] {
  const { data } = abilitiesSchema.safeParse(abilities)
  return data === undefined ? [] : [...data.templates.map(baseOfTemplate), ...data.tools.map(baseOfTools)]
}

/**
 * Says why a host with these abilities cannot restore a snapshot with these needs; undefined when it can. It lacks no
 * base that `canFetch` says.
 */
export function problemOf(
  needs: unknown,
  abilities: unknown,
  canFetch: (base: string) => boolean = () => false,
): string | undefined {
  const wanted = needsSchema.safeParse(needs)
  const present = abilitiesSchema.safeParse(abilities)
  if (!wanted.success || !present.success) return 'it has another version of the engine'
  const { template, processes } = wanted.data
  const { criuVersion, fingerprint } = present.data
  const held = new Set(basesHeld(present.data))
  const has = (base: string) => held.has(base) || canFetch(base)
  if (!has(baseOfTemplate(template))) return lackOf(template)
  if (processes === undefined) return undefined
  if (!has(baseOfTools(processes.tools))) return `it lacks the guest tools ${processes.tools}`
  if (compareVersions(processes.criuVersion, criuVersion) > 0)
    return `its CRIU ${criuVersion} is older than ${processes.criuVersion}`
  return mismatch(processes.fingerprint, fingerprint)
}

function lackOf({ name, hash, builtAt }: TemplateBuild): string {
  return `it lacks build ${hash} of template ${name} of ${builtAt}`
}

/** Says why a host with these abilities cannot start from a template; undefined when it can. */
export function problemOfTemplate(name: string, abilities: unknown): string | undefined {
  const present = abilitiesSchema.safeParse(abilities)
  if (!present.success) return 'it has another version of the engine'
  return present.data.templates.some((build) => build.name === name)
    ? undefined
    : `it has no template ${name}`
}
