import { DormouseError, type Isolation, type Material, type SnapshotId } from '@dormouse/contracts'
import type { Preparation, ProgramSettings } from '@dormouse/engine'
import type { Caller } from '../access/caller.ts'
import { BUILT_IN_OWNER } from './built-in-descriptions.ts'
import { preparationOf } from './preparation.ts'
import type { TemplateRow, TemplateRows } from './template-rows.ts'

/** The snapshots that sandboxes of a template start from. */
export interface TemplateSnapshots {
  readonly snapshotId: SnapshotId
  /** Of a built template: its files alone. `snapshotId` then has no process of a user. */
  readonly filesId: SnapshotId | undefined
  /** Of a template from an image: how programs start on `filesId`. */
  readonly image?: ProgramSettings | undefined
  /** Of a built template: makes machines that boot on `filesId` as warm as `snapshotId`. */
  readonly preparation?: Preparation | undefined
}

/** Templates of keys, in memory and on disk. */
export class TemplateCatalog {
  /** Fetches a snapshot that another host of the cluster has built. Undefined outside a cluster. */
  bring: ((id: SnapshotId, row: { readonly owner: string }) => Promise<void>) | undefined
  readonly #rows: TemplateRows
  #templates: readonly TemplateRow[]

  constructor(rows: TemplateRows) {
    this.#rows = rows
    this.#templates = rows.all()
  }

  /** Another host of the cluster has changed rows. */
  reload(): void {
    this.#templates = this.#rows.all()
  }

  all(): readonly TemplateRow[] {
    return this.#templates
  }

  find(name: string, owner: string): TemplateRow | undefined {
    return this.#templates.find((row) => row.name === name && row.owner === owner)
  }

  /** The owner's own, or a built-in one. */
  findUsable(name: string, owner: string): TemplateRow | undefined {
    return this.find(name, owner) ?? this.find(name, BUILT_IN_OWNER)
  }

  visibleTo(caller: Caller): TemplateRow[] {
    return this.#templates.filter(
      ({ owner }) => caller.isAdmin || owner === caller.keyId || owner === BUILT_IN_OWNER,
    )
  }

  /** Undefined for templates of the host. */
  snapshotsOf(name: string, owner: string): TemplateSnapshots | undefined {
    const row = this.findUsable(name, owner)
    if (row?.snapshotId === undefined) return undefined
    const { snapshotId, filesId, image } = row
    const settings = image && { user: image.user, env: image.env, cwd: image.cwd }
    const preparation = filesId === undefined ? undefined : preparationOf(row)
    return { snapshotId, filesId, ...(settings && { image: settings }), ...(preparation && { preparation }) }
  }

  /** The default for sandboxes of a built template. Undefined when it has none. */
  isolationOf(name: string, owner: string): Isolation | undefined {
    return this.findUsable(name, owner)?.isolation
  }

  /** Why a template that a caller knows cannot be used; undefined when it can, or when there is none. */
  notReady(name: string, owner: string): DormouseError | undefined {
    const row = this.findUsable(name, owner)
    if (row === undefined || row.state === 'ready') return undefined
    const [message, hint] =
      row.state === 'building'
        ? [
            'is still being built.',
            '`dormouse template ls` shows what the build does. Try again when it is ready.',
          ]
        : [`could not be built: ${row.error}`, `\`dormouse template show ${name}\` shows the end of its log.`]
    return new DormouseError('conflict', `The template "${name}" ${message}`, {
      details: { template: name },
      hint,
    })
  }

  materialsOf(row: TemplateRow): readonly Material[] | undefined {
    return this.#rows.materials(row)
  }

  put(row: TemplateRow, items?: readonly Material[]): void {
    this.#rows.put(row, items)
    this.putInMemory(row)
  }

  /** For a row that a full disk does not let the server write. The next start finds the row before. */
  putInMemory(row: TemplateRow): void {
    this.#templates = [...this.#without(row), row]
  }

  delete(row: TemplateRow): void {
    this.#templates = this.#without(row)
    this.#rows.delete(row)
  }

  #without({ name, owner }: TemplateRow): TemplateRow[] {
    return this.#templates.filter((other) => other.name !== name || other.owner !== owner)
  }
}
