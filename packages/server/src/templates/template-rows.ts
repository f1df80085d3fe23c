import type { Isolation, Material, SandboxId, SnapshotId } from '@dormouse/contracts'
import type { TemplateReady } from '@dormouse/contracts/http'
import type { ProgramSettings } from '@dormouse/engine'
import type { Database } from '../store/database.ts'
import type { RunSettings } from './recipe/recipe.ts'

/** How many packages a template was built from, and the digest of their list. */
export interface MaterialsSummary {
  readonly count: number
  readonly sha256: string
}

export interface TemplateRow {
  readonly name: string
  readonly owner: string
  readonly description: string | undefined
  readonly state: 'building' | 'ready' | 'failed'
  readonly source: 'description' | 'snapshot'
  /** The base template. */
  readonly base: string | undefined
  /** Default for its sandboxes. */
  readonly isolation: Isolation | undefined
  /** The snapshot that its sandboxes start from. Undefined while it is being built, and for templates of the host. */
  readonly snapshotId: SnapshotId | undefined
  /** Its files without processes, for built templates. */
  readonly filesId: SnapshotId | undefined
  /** The sandbox that builds it. */
  readonly sandboxId: SandboxId | undefined
  /** Modules that its sandboxes start with, including those of the base. */
  readonly preload: readonly string[]
  readonly materials: MaterialsSummary | undefined
  readonly createdAt: number
  readonly logTail: string | undefined
  readonly error: string | undefined
  /** Of a template from an image or a Dockerfile. */
  readonly image: TemplateImage | undefined
  /** Of a failed build: the state before the step that failed. */
  readonly debug: FailedStep | undefined
}

/** The image, if one is at the bottom, and how programs run. */
export interface TemplateImage extends RunSettings {
  readonly name?: string | undefined
  /** What its sandboxes have running. Templates that an earlier version built do not say it. */
  readonly program?: StartedProgram | undefined
}

export interface StartedProgram {
  readonly args: readonly string[]
  readonly ready?: TemplateReady | undefined
}

export interface FailedStep {
  readonly shown: string
  readonly template: string
  readonly snapshotId?: SnapshotId | undefined
  readonly image: ProgramSettings
}

/** Of a template that is not built yet. */
export const NOTHING_YET = {
  base: undefined,
  isolation: undefined,
  preload: [],
  snapshotId: undefined,
  filesId: undefined,
  sandboxId: undefined,
  materials: undefined,
  logTail: undefined,
  error: undefined,
  image: undefined,
  debug: undefined,
} as const

interface StoredRow {
  name: string
  owner: string
  description: string | null
  state: TemplateRow['state']
  source: TemplateRow['source']
  base: string | null
  isolation: Isolation | null
  snapshot_id: SnapshotId | null
  files_snapshot_id: SnapshotId | null
  sandbox_id: SandboxId | null
  preload: string | null
  materials: string | null
  created_at: number
  log_tail: string | null
  error: string | null
  image: string | null
  debug: string | null
}

export class TemplateRows {
  readonly #db: Database
  readonly #put
  readonly #all
  readonly #delete

  constructor(db: Database) {
    this.#db = db
    this.#put = db.prepare<(string | number | null)[]>(
      `INSERT OR REPLACE INTO templates (name, owner, description, state, source, base, snapshot_id, files_snapshot_id,
         sandbox_id, preload, materials, created_at, log_tail, error, image, debug, debug_snapshot_id,
         isolation)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    this.#all = db.prepare<[], StoredRow>('SELECT * FROM templates ORDER BY name')
    this.#delete = db.prepare<[string, string]>('DELETE FROM templates WHERE owner = ? AND name = ?')
  }

  /** `items` replaces the recorded packages. */
  put(row: TemplateRow, items?: readonly Material[]): void {
    const write = () =>
      this.#put.run(
        row.name,
        row.owner,
        row.description ?? null,
        row.state,
        row.source,
        row.base ?? null,
        row.snapshotId ?? null,
        row.filesId ?? null,
        row.sandboxId ?? null,
        JSON.stringify(row.preload),
        row.materials === undefined ? null : JSON.stringify(row.materials),
        row.createdAt,
        row.logTail ?? null,
        row.error ?? null,
        row.image === undefined ? null : JSON.stringify(row.image),
        row.debug === undefined ? null : JSON.stringify(row.debug),
        row.debug?.snapshotId ?? null,
        row.isolation ?? null,
      )
    if (items === undefined) return void write()
    this.#db.transaction(() => {
      write()
      this.#db
        .prepare<[string, string, string]>(
          'INSERT INTO template_materials (owner, name, items) VALUES (?, ?, ?)',
        )
        .run(row.owner, row.name, JSON.stringify(items))
    })
  }

  /** Undefined when they were not recorded. */
  materials({ owner, name }: Pick<TemplateRow, 'owner' | 'name'>): readonly Material[] | undefined {
    const found = this.#db
      .prepare<[string, string], { items: string }>(
        'SELECT items FROM template_materials WHERE owner = ? AND name = ?',
      )
      .get(owner, name)
    return found === undefined ? undefined : JSON.parse(found.items)
  }

  all(): TemplateRow[] {
    return this.#all.all().map((row) => ({
      name: row.name,
      owner: row.owner,
      description: row.description ?? undefined,
      state: row.state,
      source: row.source,
      base: row.base ?? undefined,
      isolation: row.isolation ?? undefined,
      snapshotId: row.snapshot_id ?? undefined,
      filesId: row.files_snapshot_id ?? undefined,
      sandboxId: row.sandbox_id ?? undefined,
      preload: row.preload === null ? [] : JSON.parse(row.preload),
      materials: row.materials === null ? undefined : JSON.parse(row.materials),
      createdAt: row.created_at,
      logTail: row.log_tail ?? undefined,
      error: row.error ?? undefined,
      image: row.image === null ? undefined : JSON.parse(row.image),
      debug: row.debug === null ? undefined : JSON.parse(row.debug),
    }))
  }

  delete({ owner, name }: Pick<TemplateRow, 'owner' | 'name'>): void {
    this.#delete.run(owner, name)
  }
}
