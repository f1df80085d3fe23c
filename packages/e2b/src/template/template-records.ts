import { randomBytes, randomUUID } from 'node:crypto'
import type { Caller } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'
import type { ItemStore } from '../items.ts'

const KIND = 'template'
/** Builds of one template that are remembered. Older ones without tags are forgotten. */
export const BUILDS_MAX = 20
const NAME = /^[a-z0-9][a-z0-9_-]{0,127}$/
const TAG = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/
const DEFAULT_TAG = 'default'

/** One build of a template of E2B: a template of Dormouse with a name of its own. */
export interface BuildRecord {
  readonly buildId: string
  readonly createdAtMs: number
  readonly cpuCount: number
  readonly memoryMB: number
  /** When each tag was given to this build. A tag names the build that got it last and is ready. */
  readonly tags: Readonly<Record<string, number>>
  /** The name of Dormouse's template. */
  readonly template: string
  /** `asked`: the client has not said yet what to build. `queued`: it waits for other builds. */
  readonly state: 'asked' | 'queued' | 'started' | 'failed'
  readonly error?: string | undefined
  /** For each step that runs in a sandbox: the step of the client, counted from 1; 0 is the base. */
  readonly steps?: readonly number[] | undefined
  /** The user of the last step. Builds on this template start with it. */
  readonly user?: string | undefined
}

/** A template of E2B: a name with builds, of which tags choose one. */
export interface TemplateRecord {
  readonly templateId: string
  readonly name: string
  readonly createdAtMs: number
  readonly isPublic: boolean
  /** The newest first. */
  readonly builds: readonly BuildRecord[]
}

export interface BuildRef {
  readonly template: TemplateRecord
  readonly build: BuildRecord
}

/** Names, builds and tags of the templates that clients of E2B build. */
export class TemplateRecords {
  readonly #items: ItemStore

  constructor(items: ItemStore) {
    this.#items = items
  }

  list({ keyId }: Caller): TemplateRecord[] {
    return this.#items.list(KIND, keyId).map(({ value }) => value as TemplateRecord)
  }

  /** By id or name; a tag behind it is ignored. */
  find(ref: string, caller: Caller): TemplateRecord | undefined {
    const { name } = splitName(ref)
    const all = this.list(caller)
    return all.find((one) => one.templateId === name) ?? all.find((one) => one.name === name)
  }

  /** Throws `ApiError` 404. */
  get(ref: string, caller: Caller): TemplateRecord {
    const found = this.find(ref, caller)
    if (found === undefined) throw new ApiError(404, `Template '${ref}' not found`)
    return found
  }

  /** Throws `ApiError` 404. */
  getBuild(templateId: string, buildId: string, caller: Caller): BuildRef {
    const template = this.get(templateId, caller)
    const build = template.builds.find((one) => one.buildId === buildId)
    if (build === undefined) throw new ApiError(404, `Build '${buildId}' not found`)
    return { template, build }
  }

  /** Adds a build, and the template when this is its first one. */
  add(
    request: { name: string; tags: readonly string[]; cpuCount: number; memoryMB: number },
    caller: Caller,
  ): BuildRef {
    const { name, tag } = splitName(request.name)
    if (!NAME.test(name))
      throw new ApiError(400, `name: '${name}' must be lowercase letters, digits, "-" and "_"`)
    const tags = [...new Set([...(tag === undefined ? [] : [tag]), ...request.tags])].map(checkTag)
    const nowMs = Date.now()
    const buildId = randomUUID()
    const build: BuildRecord = {
      buildId,
      createdAtMs: nowMs,
      cpuCount: request.cpuCount,
      memoryMB: request.memoryMB,
      tags: Object.fromEntries((tags.length === 0 ? [DEFAULT_TAG] : tags).map((one) => [one, nowMs])),
      template: `${name.slice(0, 40)}-${buildId.slice(0, 8)}`,
      state: 'asked',
    }
    const known = this.list(caller).find((one) => one.name === name)
    const template: TemplateRecord = {
      ...(known ?? { templateId: newTemplateId(), name, createdAtMs: nowMs, isPublic: false }),
      builds: [build, ...(known?.builds ?? [])],
    }
    this.put(template, caller)
    return { template, build }
  }

  put(template: TemplateRecord, { keyId }: Caller): void {
    this.#items.put({ kind: KIND, owner: keyId, name: template.templateId }, template)
  }

  change({ template, build }: BuildRef, changed: Partial<BuildRecord>, caller: Caller): void {
    const current = this.find(template.templateId, caller)
    if (current === undefined) return
    const builds = current.builds.map((one) => (one.buildId === build.buildId ? { ...one, ...changed } : one))
    this.put({ ...current, builds }, caller)
  }

  delete({ templateId }: TemplateRecord, { keyId }: Caller): void {
    this.#items.delete({ kind: KIND, owner: keyId, name: templateId })
  }
}

/** Builds that have the tag, the one that got it last first. */
export function buildsWithTag({ builds }: TemplateRecord, tag = DEFAULT_TAG): BuildRecord[] {
  return builds
    .filter(({ tags }) => tags[tag] !== undefined)
    .sort((one, other) => (other.tags[tag] ?? 0) - (one.tags[tag] ?? 0))
}

/** `team/name:tag`: a key is a team of its own, so what is before the slash says nothing. */
export function splitName(ref: string): { name: string; tag: string | undefined } {
  const [name = '', tag] = (ref.split('/').at(-1) ?? '').split(':')
  return { name, tag }
}

/** Throws `ApiError` 400. */
export function checkTag(tag: string): string {
  if (TAG.test(tag)) return tag
  throw new ApiError(400, `tags: '${tag}' is not a tag`)
}

function newTemplateId(): string {
  return [...randomBytes(20)].map((byte) => (byte % 36).toString(36)).join('')
}
