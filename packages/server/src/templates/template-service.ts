import { DormouseError, isSnapshotId, type SnapshotId } from '@dormouse/contracts'
import type { TemplateDescription, Templates, TemplateView } from '../api/services.ts'
import type { Log } from '../lifecycle/parts.ts'
import type { Caller, Page } from '../lifecycle/service.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'
import type { TemplateRow, TemplateRows } from './template-rows.ts'

/** A template that is on this host whatever the API did. */
export interface HostTemplate {
  readonly name: string
  readonly description: string | undefined
  readonly createdAt: string
  readonly bytes: number
}

export interface TemplateBuilder {
  list(): Promise<readonly HostTemplate[]>
  /** Post: sandboxes can be created from it. */
  build(
    description: TemplateDescription,
    options: { say: (line: string) => void; signal: AbortSignal },
  ): Promise<void>
  remove(name: string): Promise<void>
}

export interface TemplateServiceOptions {
  readonly rows: TemplateRows
  readonly snapshots: SnapshotRows
  readonly builder: TemplateBuilder
  /** Whether a sandbox or a snapshot cannot do without it. */
  readonly isNeeded: (name: string, owner: string | undefined) => boolean
  readonly dropSnapshot: (id: SnapshotId) => Promise<void>
  readonly now: () => number
  readonly log: Log
}

/** A build takes the disk and the network to itself. */
const BUILDS_AT_ONCE = 1
const LOG_LINES = 40

/** Templates of the host, which everybody may use, and those that a key has made of its snapshots, which are its own. */
export class TemplateService implements Templates, AsyncDisposable {
  readonly #options: TemplateServiceOptions
  readonly #builds = new Map<string, { ended: Promise<void>; stop: AbortController }>()
  #host: readonly HostTemplate[] = []
  #rows: TemplateRow[]

  constructor(options: TemplateServiceOptions) {
    this.#options = options
    this.#rows = options.rows.all()
  }

  /** Reads what is on the host. What an earlier server was building is not going to be ready. */
  async open(): Promise<void> {
    this.#host = await this.#options.builder.list()
    for (const row of this.#rows.filter(({ state }) => state === 'building')) {
      this.#put({ ...row, state: 'failed', error: 'The server ended before it was built.' })
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { stop } of this.#builds.values()) stop.abort()
    await Promise.allSettled([...this.#builds.values()].map(({ ended }) => ended))
  }

  /** The snapshot that stands for a template of this owner; undefined for those of the host. */
  snapshotOf(name: string, owner: string): SnapshotId | undefined {
    return this.#rows.find((row) => row.name === name && row.owner === owner)?.snapshotId
  }

  list({ limit, cursor }: { limit: number; cursor?: string }, caller: Caller): Page<TemplateView> {
    const all = [...this.#host.map((host) => this.#hostView(host)), ...this.#visible(caller).map(viewOf)]
      .filter((view, index, views) => views.findIndex(({ name }) => name === view.name) === index)
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .filter(({ name }) => cursor === undefined || name > cursor)
    const items = all.slice(0, limit)
    return { items, nextCursor: all.length > limit ? items.at(-1)?.name : undefined }
  }

  get(name: string, caller: Caller): TemplateView {
    const row = this.#visible(caller).find((candidate) => candidate.name === name)
    if (row?.state === 'building' || row?.source === 'snapshot') return viewOf(row)
    const host = this.#host.find((candidate) => candidate.name === name)
    if (host !== undefined) return this.#hostView(host)
    if (row !== undefined) return viewOf(row)
    throw new DormouseError('template_not_found', `There is no template "${name}".`, {
      details: { template: name },
    })
  }

  async build(description: TemplateDescription, caller: Caller): Promise<TemplateView> {
    // The commands of a description run as root of the host's kernel, without the walls of a sandbox.
    if (!caller.isAdmin)
      throw new DormouseError('scope_missing', 'Only an admin key may build templates from a description.', {
        hint: 'Install what is needed in a sandbox, take a snapshot of it, and make a template of that.',
      })
    const { name } = description
    this.#requireFree(name, caller)
    if (this.#builds.size >= BUILDS_AT_ONCE)
      throw new DormouseError('overloaded', 'Another template is being built.', {
        details: { retryAfterMs: 30_000 },
      })
    const row: TemplateRow = {
      name,
      owner: caller.keyId,
      description: description.description,
      state: 'building',
      source: 'description',
      snapshotId: undefined,
      createdAt: this.#options.now(),
      logTail: undefined,
      error: undefined,
    }
    this.#put(row)
    const stop = new AbortController()
    const ended = this.#build(row, description, stop.signal).finally(() => this.#builds.delete(name))
    this.#builds.set(name, { ended, stop })
    return viewOf(row)
  }

  async #build(row: TemplateRow, description: TemplateDescription, signal: AbortSignal): Promise<void> {
    const { builder, log } = this.#options
    const lines: string[] = []
    const say = (line: string) => {
      lines.push(line)
      if (lines.length > LOG_LINES) lines.shift()
    }
    const logTail = () => (lines.length === 0 ? undefined : lines.join('\n'))
    try {
      await builder.build(description, { say, signal })
      this.#host = await builder.list()
      this.#settle({ ...row, state: 'ready', logTail: logTail() })
    } catch (error) {
      log.warn({ template: row.name, err: error }, 'a template could not be built')
      const reason = error instanceof DormouseError ? error.message : 'An inner error; the server log has it.'
      this.#settle({ ...row, state: 'failed', logTail: logTail(), error: reason })
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
      name,
      owner: caller.keyId,
      description: request.description,
      state: 'ready',
      source: 'snapshot',
      snapshotId: snapshot.id,
      createdAt: now(),
      logTail: undefined,
      error: undefined,
    }
    this.#put(row)
    return viewOf(row)
  }

  async delete(name: string, caller: Caller): Promise<void> {
    const { rows, isNeeded, dropSnapshot, builder } = this.#options
    const row = this.#visible(caller).find((candidate) => candidate.name === name)
    if (row === undefined) {
      this.get(name, caller)
      throw new DormouseError('in_use', `The template "${name}" belongs to the host.`, {
        hint: 'It comes with the installation and stays.',
      })
    }
    if (isNeeded(name, row.source === 'snapshot' ? row.owner : undefined))
      throw new DormouseError('in_use', `Sandboxes or snapshots were made from the template "${name}".`, {
        hint: 'Delete them first.',
      })
    const build = this.#builds.get(name)
    build?.stop.abort()
    await build?.ended
    this.#rows = this.#rows.filter((other) => other.name !== name || other.owner !== row.owner)
    rows.delete(row)
    if (row.snapshotId !== undefined) await dropSnapshot(row.snapshotId)
    if (row.source === 'description') {
      await builder.remove(name)
      this.#host = await builder.list()
    }
  }

  #requireFree(name: string, caller: Caller): void {
    const mine = this.#rows.find((row) => row.name === name && row.owner === caller.keyId)
    if (mine?.state === 'failed') return
    if (mine !== undefined || this.#host.some((host) => host.name === name))
      throw new DormouseError('name_taken', `There is already a template named "${name}".`)
  }

  /** Nobody waits for it, and a build may have filled the disk: what cannot be written down the next start finds unfinished. */
  #settle(row: TemplateRow): void {
    try {
      this.#put(row)
    } catch (error) {
      this.#options.log.error({ template: row.name, err: error }, 'the end of a build was not written down')
      this.#remember(row)
    }
  }

  #put(row: TemplateRow): void {
    this.#options.rows.put(row)
    this.#remember(row)
  }

  #remember(row: TemplateRow): void {
    this.#rows = [...this.#rows.filter(({ name, owner }) => name !== row.name || owner !== row.owner), row]
  }

  #visible(caller: Caller): TemplateRow[] {
    return this.#rows.filter(({ owner }) => caller.isAdmin || owner === caller.keyId)
  }

  #hostView({ name, description, createdAt, bytes }: HostTemplate): TemplateView {
    const row = this.#rows.find((other) => other.name === name && other.source === 'description')
    return {
      name,
      description,
      state: 'ready',
      source: row === undefined ? 'built_in' : 'description',
      snapshotId: undefined,
      createdAt,
      bytes,
      logTail: row?.logTail,
      error: undefined,
    }
  }
}

function viewOf(row: TemplateRow): TemplateView {
  return {
    name: row.name,
    description: row.description,
    state: row.state,
    source: row.source,
    snapshotId: row.snapshotId,
    createdAt: new Date(row.createdAt).toISOString(),
    bytes: undefined,
    logTail: row.logTail,
    error: row.error,
  }
}
