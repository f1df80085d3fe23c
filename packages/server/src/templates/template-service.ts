import {
  DormouseError,
  isSnapshotId,
  type Material,
  type Materials,
  type SnapshotId,
} from '@dormouse/contracts'
import type { TemplateAnswer, TemplateMaterialsAnswer } from '@dormouse/contracts/http'
import { DEFAULT_TEMPLATE } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { Log } from '../log.ts'
import type { Page } from '../store/page.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'
import type { LogLine } from './build-log.ts'
import { failedStepOf, finishedLines, reasonOf } from './build-outcome.ts'
import { BUILT_IN_OWNER } from './built-in-descriptions.ts'
import { describeHostTemplate, describeRow } from './describe-template.ts'
import type { HostTemplate, HostTemplates } from './host-templates.ts'
import { TEMPLATE_SETTINGS } from './recipe/recipe.ts'
import { readRecipe } from './recipe/recipe-request.ts'
import { type BaseFiles, StepFailed } from './recipe/run-recipe.ts'
import type { RunningBuild, TemplateBuilds } from './template-builds.ts'
import type { TemplateCatalog } from './template-catalog.ts'
import { type FailedStep, NOTHING_YET, type TemplateImage, type TemplateRow } from './template-rows.ts'
import type { TemplateDescription, Templates } from './templates.ts'

export type { HostTemplate, HostTemplates } from './host-templates.ts'

export interface TemplateServiceOptions {
  readonly catalog: TemplateCatalog
  readonly snapshots: SnapshotRows
  readonly host: HostTemplates
  readonly builds: Pick<TemplateBuilds, 'find' | 'requireRoom' | 'start' | 'removeSandbox' | 'stopAll'>
  /** Whether a sandbox or snapshot depends on it. */
  readonly isNeeded: (name: string, owner: string | undefined) => boolean
  readonly dropSnapshot: (id: SnapshotId) => Promise<void>
  readonly now: () => number
  readonly log: Log
}

const SERVER_ENDED = 'The server ended before it was built.'

/** Templates of the host, which every key may use, and templates of keys, which a key built or made from snapshots. */
export class TemplateService implements Templates, AsyncDisposable {
  readonly #options: TemplateServiceOptions
  readonly #settling = new Set<Promise<void>>()
  #host: readonly HostTemplate[] = []

  constructor(options: TemplateServiceOptions) {
    this.#options = options
  }

  /** Lists the host's templates, and removes builds that an earlier server left: nothing else knows their sandboxes. */
  async open(): Promise<void> {
    const { builds, catalog, log } = this.#options
    await this.#readHost()
    for (const row of catalog.all().filter(({ state }) => state === 'building')) {
      try {
        if (row.sandboxId !== undefined) await builds.removeSandbox(row.sandboxId)
        this.#put({ ...row, state: 'failed', sandboxId: undefined, error: SERVER_ENDED })
      } catch (error) {
        // Keeps the row, so that the next start tries again.
        log.error(
          { template: row.name, err: error },
          'the sandbox of an unfinished build could not be removed',
        )
        catalog.putInMemory({ ...row, state: 'failed', error: SERVER_ENDED })
      }
    }
  }

  /** Stops running builds and removes what they made. */
  async stopBuilds(): Promise<void> {
    await this.#options.builds.stopAll(SERVER_ENDED)
    await Promise.all(this.#settling)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopBuilds()
  }

  /** `dormouse template build` adds templates to the host while this server runs. */
  async #readHost(): Promise<void> {
    this.#host = await this.#options.host.list()
  }

  async list(
    { limit, cursor }: { limit: number; cursor?: string },
    caller: Caller,
  ): Promise<Page<TemplateAnswer>> {
    await this.#readHost()
    const rows = this.#visible(caller).map((row) => this.#view(row))
    const all = [...this.#host.map((host) => this.#hostView(host)), ...rows]
      .filter((view, index, views) => views.findIndex(({ name }) => name === view.name) === index)
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .filter(({ name }) => cursor === undefined || name > cursor)
    const items = all.slice(0, limit)
    return { items, nextCursor: all.length > limit ? items.at(-1)?.name : undefined }
  }

  async get(name: string, caller: Caller): Promise<TemplateAnswer> {
    await this.#readHost()
    const found = this.#find(name, caller)
    return 'row' in found ? this.#view(found.row) : this.#hostView(found.host)
  }

  async log(
    name: string,
    after: number,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<AsyncIterable<LogLine>> {
    const { logTail, createdAt } = await this.get(name, caller)
    const row = this.#own(name, caller.keyId) ?? this.#visible(caller).find((other) => other.name === name)
    const build = row && this.#options.builds.find(row.owner, name)
    if (build !== undefined) return build.log.follow(after, signal)
    return finishedLines(logTail, Date.parse(createdAt), after)
  }

  failedStep(name: string, caller: Caller): FailedStep {
    const found = this.#find(name, caller)
    if ('row' in found && found.row.debug !== undefined) return found.row.debug
    throw new DormouseError('conflict', `No step of a build of "${name}" has failed.`)
  }

  /** A stage of a build starts on the files of a template. Its processes would only be in the way. */
  #openTemplate(name: string, caller: Caller): BaseFiles {
    this.#requireBase(name, caller)
    const row = this.#own(name, caller.keyId)
    const image: TemplateImage = row?.image ?? TEMPLATE_SETTINGS
    const { program: _, ...settings } = image
    const host = this.#host.find((other) => other.name === name)
    const origin = { template: name, ...(row?.filesId !== undefined && { files: row.filesId }) }
    return {
      origin,
      key: JSON.stringify(['template', name, row?.snapshotId ?? host?.createdAt ?? '']),
      settings,
    }
  }

  async materials(name: string, caller: Caller): Promise<TemplateMaterialsAnswer> {
    await this.#readHost()
    const found = this.#find(name, caller)
    const whole = 'row' in found ? this.#materialsOf(found.row) : await this.#options.host.materials(name)
    if (whole === undefined)
      throw new DormouseError('not_found', `The packages of the template "${name}" are not recorded.`, {
        hint: 'Templates made from snapshots or by older versions have no list of packages.',
      })
    return { count: whole.items.length, sha256: whole.sha256, items: whole.items }
  }

  async build(description: TemplateDescription, caller: Caller): Promise<TemplateAnswer> {
    const { builds, now } = this.#options
    const { name } = description
    await this.#readHost()
    this.#requireFree(name, caller)
    const { recipe: wanted } = description
    const isOnImage = (wanted?.image ?? wanted?.dockerfile) !== undefined
    const base = isOnImage ? undefined : this.#requireBase(description.from ?? DEFAULT_TEMPLATE, caller)
    const recipe = wanted && readRecipe(wanted, base, description)
    builds.requireRoom(description, caller)
    const inherited = base === undefined ? [] : this.#preloadOf(base, caller)
    let row: TemplateRow = {
      ...NOTHING_YET,
      name,
      owner: caller.keyId,
      description: description.description,
      state: 'building',
      source: 'description',
      base,
      isolation: description.isolation,
      preload: [...new Set([...inherited, ...description.preload])],
      createdAt: now(),
    }
    const failed = this.#own(name, caller.keyId)?.debug?.snapshotId
    this.#put(row)
    if (failed !== undefined) await this.#options.dropSnapshot(failed)
    const baseMaterials = base === undefined ? [] : await this.#baseMaterials(base, caller)
    const openTemplate = (from: string) => this.#openTemplate(from, caller)
    const build = builds.start({
      ...{ description, base: base ?? '', baseMaterials, inherited, caller },
      ...(recipe && { recipe: { recipe, openTemplate } }),
      announce: (sandboxId) => {
        row = { ...row, sandboxId }
        this.#put(row)
      },
    })
    const settled = this.#whenEnded(build, () => row).finally(() => this.#settling.delete(settled))
    this.#settling.add(settled)
    return this.#view(row)
  }

  /** Builds a built-in template. Resolves when it is ready or has failed. */
  async rebuild(description: TemplateDescription): Promise<void> {
    const row = this.#own(description.name, BUILT_IN_OWNER)
    if (row !== undefined) await this.#remove(row)
    await this.build(description, { keyId: BUILT_IN_OWNER, isAdmin: false })
    await this.#options.builds.find(BUILT_IN_OWNER, description.name)?.ended.catch(() => {})
    await Promise.all(this.#settling)
  }

  async #whenEnded(build: RunningBuild, row: () => TemplateRow): Promise<void> {
    const { log } = this.#options
    try {
      const { snapshotId, filesId, materials, image } = await build.ended
      const summary = materials && { count: materials.items.length, sha256: materials.sha256 }
      const logTail = build.log.tail
      const ready = { ...row(), state: 'ready', sandboxId: undefined, logTail, materials: summary } as const
      this.#settle({ ...ready, snapshotId, filesId, image }, materials?.items)
    } catch (error) {
      const debug = failedStepOf(error)
      // The state before a step has the environment of the build, which no log shall have.
      const err = error instanceof StepFailed ? error.cause : error
      log.warn({ template: build.name, step: debug?.shown, err }, 'a template could not be built')
      const failed = { ...row(), state: 'failed', sandboxId: undefined, logTail: build.log.tail } as const
      this.#settle({ ...failed, error: reasonOf(error), debug })
    }
  }

  async fromSnapshot(
    request: { name: string; description?: string | undefined; snapshotId: string },
    caller: Caller,
  ): Promise<TemplateAnswer> {
    const { snapshots, now } = this.#options
    const { name, snapshotId } = request
    await this.#readHost()
    this.#requireFree(name, caller)
    const snapshot = isSnapshotId(snapshotId) ? snapshots.get(snapshotId) : undefined
    if (snapshot === undefined || !(caller.isAdmin || snapshot.owner === caller.keyId))
      throw new DormouseError('not_found', `There is no snapshot ${snapshotId}.`)
    const row: TemplateRow = {
      ...NOTHING_YET,
      name,
      owner: caller.keyId,
      description: request.description,
      state: 'ready',
      source: 'snapshot',
      snapshotId: snapshot.id,
      createdAt: now(),
    }
    this.#put(row)
    return this.#view(row)
  }

  async delete(name: string, caller: Caller): Promise<void> {
    const row = this.#own(name, caller.keyId) ?? this.#visible(caller).find((other) => other.name === name)
    if (row === undefined) return this.#deleteOfHost(name, caller)
    if (row.owner === BUILT_IN_OWNER) throw builtIn(name)
    await this.#remove(row)
  }

  async #remove(row: TemplateRow): Promise<void> {
    const { catalog, dropSnapshot, host, builds } = this.#options
    const { name } = row
    this.#requireUnneeded(name, row.snapshotId === undefined && isOfHost(row) ? undefined : row.owner)
    builds.find(row.owner, name)?.stop('The template was deleted.')
    await Promise.all(this.#settling)
    // Also removes what a build made that ended in the meantime.
    const last = this.#own(name, row.owner) ?? row
    catalog.delete(row)
    for (const id of [last.snapshotId, last.filesId, last.debug?.snapshotId])
      if (id !== undefined) await dropSnapshot(id)
    if (isOfHost(last)) await host.remove(name)
  }

  /** Every key may use the templates of the host, so it takes an administrator to delete one. */
  async #deleteOfHost(name: string, caller: Caller): Promise<void> {
    const { source } = await this.get(name, caller)
    if (source === 'built_in') throw builtIn(name)
    if (!caller.isAdmin)
      throw new DormouseError('scope_missing', `The template "${name}" belongs to the host.`, {
        hint: 'Delete it with a key that has the scope `admin`.',
      })
    this.#requireUnneeded(name, undefined)
    await this.#options.host.remove(name)
  }

  #requireUnneeded(name: string, owner: string | undefined): void {
    if (!this.#options.isNeeded(name, owner)) return
    throw new DormouseError('in_use', `Sandboxes or snapshots were made from the template "${name}".`, {
      hint: 'Delete them first.',
    })
  }

  #requireFree(name: string, caller: Caller): void {
    const mine = this.#own(name, caller.keyId)
    if (mine?.state === 'failed') return
    const isBuiltIn = this.#own(name, BUILT_IN_OWNER) !== undefined
    if (mine !== undefined || isBuiltIn || this.#host.some((host) => host.name === name))
      throw new DormouseError('name_taken', `There is already a template named "${name}".`, {
        hint: 'Choose another name, or delete that template first.',
      })
  }

  /** The caller's own template or one of the host: a sandbox of the build must be able to start from it. */
  #requireBase(name: string, caller: Caller): string {
    const row = this.#usable(name, caller)
    if (row?.snapshotId !== undefined || this.#host.some((host) => host.name === name)) return name
    throw new DormouseError('template_not_found', `There is no template "${name}" to build on.`, {
      details: { template: name, field: 'from' },
      ...(row !== undefined && { hint: `It is ${row.state}.` }),
    })
  }

  #preloadOf(name: string, caller: Caller): readonly string[] {
    const row = this.#usable(name, caller)
    if (row?.snapshotId !== undefined) return row.preload
    return this.#host.find((host) => host.name === name)?.preload ?? []
  }

  async #baseMaterials(name: string, caller: Caller): Promise<readonly Material[]> {
    const row = this.#usable(name, caller)
    if (row?.snapshotId !== undefined) return this.#options.catalog.materialsOf(row) ?? []
    // An unreadable list of packages costs the new template its list, not the build.
    const ofHost = await this.#options.host.materials(name).catch((err: unknown) => {
      this.#options.log.warn({ template: name, err }, 'the packages of a template could not be read')
      return undefined
    })
    return ofHost?.items ?? []
  }

  #materialsOf(row: TemplateRow): Materials | undefined {
    const items = this.#options.catalog.materialsOf(row)
    return items === undefined || row.materials === undefined
      ? undefined
      : { sha256: row.materials.sha256, items }
  }

  /** The build may have filled the disk. If this cannot be written, the next start finds the build unfinished. */
  #settle(row: TemplateRow, items?: readonly Material[]): void {
    try {
      this.#put(row, items)
    } catch (error) {
      this.#options.log.error({ template: row.name, err: error }, 'the end of a build could not be recorded')
      this.#options.catalog.putInMemory(row)
    }
  }

  #put(row: TemplateRow, items?: readonly Material[]): void {
    this.#options.catalog.put(row, items)
  }

  #own(name: string, owner: string): TemplateRow | undefined {
    return this.#options.catalog.find(name, owner)
  }

  #usable(name: string, { keyId }: Caller): TemplateRow | undefined {
    return this.#options.catalog.findUsable(name, keyId)
  }

  #visible(caller: Caller): TemplateRow[] {
    return this.#options.catalog.visibleTo(caller)
  }

  /** The caller's own first: an admin may see several with one name. */
  #find(name: string, caller: Caller): { row: TemplateRow } | { host: HostTemplate } {
    const row = this.#own(name, caller.keyId) ?? this.#visible(caller).find((other) => other.name === name)
    const host = this.#host.find((candidate) => candidate.name === name)
    if (host !== undefined && (row === undefined || isOfHost(row))) return { host }
    if (row !== undefined) return { row }
    throw new DormouseError('template_not_found', `There is no template "${name}".`, {
      details: { template: name },
    })
  }

  #view(row: TemplateRow): TemplateAnswer {
    return describeRow(row, this.#options.builds.find(row.owner, row.name)?.log)
  }

  #hostView(host: HostTemplate): TemplateAnswer {
    const row = this.#options.catalog.all().find((other) => other.name === host.name && isOfHost(other))
    return describeHostTemplate(host, row)
  }
}

function builtIn(name: string): DormouseError {
  return new DormouseError('in_use', `The template "${name}" belongs to the host.`, {
    hint: 'It is part of the installation and cannot be deleted.',
  })
}

/** Built by an older version, which built root file systems for the whole host. */
function isOfHost({ source, state, snapshotId }: TemplateRow): boolean {
  return source === 'description' && state === 'ready' && snapshotId === undefined
}
