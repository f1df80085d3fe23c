import {
  DormouseError,
  isSnapshotId,
  type Material,
  type Materials,
  type SnapshotId,
} from '@dormouse/contracts'
import { DEFAULT_TEMPLATE } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { TemplateDescription, TemplateMaterials, Templates, TemplateView } from '../api/services.ts'
import type { Log } from '../log.ts'
import type { Page } from '../store/page.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'
import type { RunningBuild, TemplateBuilds } from './template-builds.ts'
import type { MaterialsSummary, TemplateRow, TemplateRows } from './template-rows.ts'

/** A template that is on this host whatever the API did. */
export interface HostTemplate {
  readonly name: string
  readonly description: string | undefined
  readonly createdAt: string
  readonly bytes: number
  /** Modules that its sandboxes start with. */
  readonly preload: readonly string[]
  readonly materials: MaterialsSummary | undefined
}

/** Templates that root of this host has built, each a root file system. */
export interface HostTemplates {
  list(): Promise<readonly HostTemplate[]>
  /** undefined: they were not recorded. */
  materials(name: string): Promise<Materials | undefined>
  remove(name: string): Promise<void>
}

/** What sandboxes of a template start from. */
export interface TemplateSnapshots {
  readonly snapshotId: SnapshotId
  /** Of one that was built: no process of a user runs in `snapshotId`, and this has its files without any. */
  readonly filesId: SnapshotId | undefined
}

export interface TemplateServiceOptions {
  readonly rows: TemplateRows
  readonly snapshots: SnapshotRows
  readonly host: HostTemplates
  readonly builds: Pick<TemplateBuilds, 'find' | 'requireRoom' | 'start' | 'removeSandbox' | 'stopAll'>
  /** Whether a sandbox or a snapshot cannot do without it. */
  readonly isNeeded: (name: string, owner: string | undefined) => boolean
  readonly dropSnapshot: (id: SnapshotId) => Promise<void>
  readonly now: () => number
  readonly log: Log
}

const ERROR_MAX_CHARACTERS = 1_000
const SERVER_ENDED = 'The server ended before it was built.'

/** Templates of the host, which every key may use, and those that a key has built or made of its snapshots, which are its own. */
export class TemplateService implements Templates, AsyncDisposable {
  readonly #options: TemplateServiceOptions
  readonly #settling = new Set<Promise<void>>()
  #host: readonly HostTemplate[] = []
  #rows: TemplateRow[]

  constructor(options: TemplateServiceOptions) {
    this.#options = options
    this.#rows = options.rows.all()
  }

  /** Reads what is on the host. What an earlier server was building is removed: nothing else knows of its sandbox. */
  async open(): Promise<void> {
    const { host, builds, log } = this.#options
    this.#host = await host.list()
    for (const row of this.#rows.filter(({ state }) => state === 'building')) {
      try {
        if (row.sandboxId !== undefined) await builds.removeSandbox(row.sandboxId)
        this.#put({ ...row, state: 'failed', sandboxId: undefined, error: SERVER_ENDED })
      } catch (error) {
        // The row stays as it is: the next start tries again.
        log.error({ template: row.name, err: error }, 'what is left of a build could not be removed')
        this.#remember({ ...row, state: 'failed', error: SERVER_ENDED })
      }
    }
  }

  /** Ends builds under way, with all that they have made. */
  async stopBuilds(): Promise<void> {
    await this.#options.builds.stopAll(SERVER_ENDED)
    await Promise.all(this.#settling)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopBuilds()
  }

  /** undefined for templates of the host. */
  snapshotsOf(name: string, owner: string): TemplateSnapshots | undefined {
    const row = this.#own(name, owner)
    return row?.snapshotId && { snapshotId: row.snapshotId, filesId: row.filesId }
  }

  list({ limit, cursor }: { limit: number; cursor?: string }, caller: Caller): Page<TemplateView> {
    const rows = this.#visible(caller).map((row) => this.#view(row))
    const all = [...this.#host.map((host) => this.#hostView(host)), ...rows]
      .filter((view, index, views) => views.findIndex(({ name }) => name === view.name) === index)
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .filter(({ name }) => cursor === undefined || name > cursor)
    const items = all.slice(0, limit)
    return { items, nextCursor: all.length > limit ? items.at(-1)?.name : undefined }
  }

  get(name: string, caller: Caller): TemplateView {
    const found = this.#find(name, caller)
    return 'row' in found ? this.#view(found.row) : this.#hostView(found.host)
  }

  async materials(name: string, caller: Caller): Promise<TemplateMaterials> {
    const found = this.#find(name, caller)
    const whole = 'row' in found ? this.#materialsOf(found.row) : await this.#options.host.materials(name)
    if (whole === undefined)
      throw new DormouseError('not_found', `What the template "${name}" was built from is not recorded.`, {
        hint: 'Templates made from a snapshot have no such list, and those built by older versions have none either.',
      })
    return { count: whole.items.length, sha256: whole.sha256, items: whole.items }
  }

  async build(description: TemplateDescription, caller: Caller): Promise<TemplateView> {
    const { builds, now } = this.#options
    const { name } = description
    this.#requireFree(name, caller)
    const base = this.#requireBase(description.from ?? DEFAULT_TEMPLATE, caller)
    builds.requireRoom(description, caller)
    const inherited = this.#preloadOf(base, caller)
    let row: TemplateRow = {
      ...NOTHING_YET,
      name,
      owner: caller.keyId,
      description: description.description,
      state: 'building',
      source: 'description',
      base,
      preload: [...new Set([...inherited, ...description.preload])],
      createdAt: now(),
    }
    this.#put(row)
    const baseMaterials = await this.#baseMaterials(base, caller)
    const build = builds.start({
      ...{ description, base, baseMaterials, inherited, caller },
      announce: (sandboxId) => {
        row = { ...row, sandboxId }
        this.#put(row)
      },
    })
    const settled = this.#whenEnded(build, () => row).finally(() => this.#settling.delete(settled))
    this.#settling.add(settled)
    return this.#view(row)
  }

  async #whenEnded(build: RunningBuild, row: () => TemplateRow): Promise<void> {
    const { log } = this.#options
    try {
      const { snapshotId, filesId, materials } = await build.ended
      const summary = materials && { count: materials.items.length, sha256: materials.sha256 }
      const logTail = build.log.tail
      const ready = { ...row(), state: 'ready', sandboxId: undefined, logTail, materials: summary } as const
      this.#settle({ ...ready, snapshotId, filesId }, materials?.items)
    } catch (error) {
      log.warn({ template: build.name, err: error }, 'a template could not be built')
      const failed = { ...row(), state: 'failed', sandboxId: undefined, logTail: build.log.tail } as const
      this.#settle({ ...failed, error: reasonOf(error) })
    }
  }

  async fromSnapshot(
    request: { name: string; description?: string | undefined; snapshotId: string },
    caller: Caller,
  ): Promise<TemplateView> {
    const { snapshots, now } = this.#options
    const { name, snapshotId } = request
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
    const { rows, isNeeded, dropSnapshot, host, builds } = this.#options
    const row = this.#own(name, caller.keyId) ?? this.#visible(caller).find((other) => other.name === name)
    if (row === undefined) {
      this.get(name, caller)
      throw new DormouseError('in_use', `The template "${name}" belongs to the host.`, {
        hint: 'It comes with the installation and stays.',
      })
    }
    if (isNeeded(name, row.snapshotId === undefined && isOfHost(row) ? undefined : row.owner))
      throw new DormouseError('in_use', `Sandboxes or snapshots were made from the template "${name}".`, {
        hint: 'Delete them first.',
      })
    builds.find(row.owner, name)?.stop('The template was deleted.')
    await Promise.all(this.#settling)
    // What a build that ended meanwhile has made goes, too.
    const last = this.#own(name, row.owner) ?? row
    this.#rows = this.#rows.filter((other) => other.name !== name || other.owner !== row.owner)
    rows.delete(row)
    for (const id of [last.snapshotId, last.filesId]) if (id !== undefined) await dropSnapshot(id)
    if (isOfHost(last)) {
      await host.remove(name)
      this.#host = await host.list()
    }
  }

  #requireFree(name: string, caller: Caller): void {
    const mine = this.#own(name, caller.keyId)
    if (mine?.state === 'failed') return
    if (mine !== undefined || this.#host.some((host) => host.name === name))
      throw new DormouseError('name_taken', `There is already a template named "${name}".`)
  }

  /** Its own or one of the host: a sandbox of the build has to be able to start from it. */
  #requireBase(name: string, caller: Caller): string {
    const row = this.#own(name, caller.keyId)
    if (row?.snapshotId !== undefined || this.#host.some((host) => host.name === name)) return name
    throw new DormouseError('template_not_found', `There is no template "${name}" to build on.`, {
      details: { template: name, field: 'from' },
      ...(row !== undefined && { hint: `It is ${row.state}.` }),
    })
  }

  #preloadOf(name: string, caller: Caller): readonly string[] {
    const row = this.#own(name, caller.keyId)
    if (row?.snapshotId !== undefined) return row.preload
    return this.#host.find((host) => host.name === name)?.preload ?? []
  }

  async #baseMaterials(name: string, caller: Caller): Promise<readonly Material[]> {
    const row = this.#own(name, caller.keyId)
    if (row?.snapshotId !== undefined) return this.#options.rows.materials(row) ?? []
    // A list that cannot be read costs digests of the new one, not the build.
    const ofHost = await this.#options.host.materials(name).catch(() => undefined)
    return ofHost?.items ?? []
  }

  #materialsOf(row: TemplateRow): Materials | undefined {
    const items = this.#options.rows.materials(row)
    return items === undefined || row.materials === undefined
      ? undefined
      : { sha256: row.materials.sha256, items }
  }

  /** A build may have filled the disk: what cannot be written down the next start finds unfinished. */
  #settle(row: TemplateRow, items?: readonly Material[]): void {
    try {
      this.#put(row, items)
    } catch (error) {
      this.#options.log.error({ template: row.name, err: error }, 'the end of a build was not written down')
      this.#remember(row)
    }
  }

  #put(row: TemplateRow, items?: readonly Material[]): void {
    this.#options.rows.put(row, items)
    this.#remember(row)
  }

  #remember(row: TemplateRow): void {
    this.#rows = [...this.#rows.filter(({ name, owner }) => name !== row.name || owner !== row.owner), row]
  }

  #own(name: string, owner: string): TemplateRow | undefined {
    return this.#rows.find((row) => row.name === name && row.owner === owner)
  }

  #visible(caller: Caller): TemplateRow[] {
    return this.#rows.filter(({ owner }) => caller.isAdmin || owner === caller.keyId)
  }

  /** The caller's own first: an admin may see several of one name. */
  #find(name: string, caller: Caller): { row: TemplateRow } | { host: HostTemplate } {
    const row = this.#own(name, caller.keyId) ?? this.#visible(caller).find((other) => other.name === name)
    const host = this.#host.find((candidate) => candidate.name === name)
    if (host !== undefined && (row === undefined || isOfHost(row))) return { host }
    if (row !== undefined) return { row }
    throw new DormouseError('template_not_found', `There is no template "${name}".`, {
      details: { template: name },
    })
  }

  #view(row: TemplateRow): TemplateView {
    const build = this.#options.builds.find(row.owner, row.name)
    return {
      name: row.name,
      description: row.description,
      state: row.state,
      source: row.source,
      from: row.base,
      snapshotId: row.snapshotId,
      createdAt: new Date(row.createdAt).toISOString(),
      bytes: undefined,
      materials: row.materials,
      logTail: build === undefined ? row.logTail : build.log.tail,
      error: row.error,
    }
  }

  #hostView({ name, description, createdAt, bytes, materials }: HostTemplate): TemplateView {
    const row = this.#rows.find((other) => other.name === name && isOfHost(other))
    return {
      ...{ name, description, state: 'ready', createdAt, bytes, materials },
      source: row === undefined ? 'built_in' : 'description',
      from: undefined,
      snapshotId: undefined,
      logTail: row?.logTail,
      error: undefined,
    }
  }
}

const NOTHING_YET = {
  base: undefined,
  preload: [],
  snapshotId: undefined,
  filesId: undefined,
  sandboxId: undefined,
  materials: undefined,
  logTail: undefined,
  error: undefined,
} as const

/** Built by a version of the server that built root file systems for the whole host. */
function isOfHost({ source, state, snapshotId }: TemplateRow): boolean {
  return source === 'description' && state === 'ready' && snapshotId === undefined
}

/** Parts of it may come from inside. */
function reasonOf(error: unknown): string {
  if (!(error instanceof DormouseError)) return 'An inner error; the server log has it.'
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
  return error.message.replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, ' ').slice(0, ERROR_MAX_CHARACTERS)
}
