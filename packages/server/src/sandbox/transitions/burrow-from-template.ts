import { hasErrorCode, type SnapshotId } from '@dormouse/contracts'
import type { Burrow, ProgramSettings, RestoreOptions } from '@dormouse/engine'
import type { SandboxRow } from '../../store/sandbox-rows.ts'
import type { TemplateSnapshots } from '../../templates/template-catalog.ts'
import type { SandboxDependencies } from '../sandbox-dependencies.ts'
import { mountsOf, processLimits } from './restore-options.ts'

export interface FromTemplate {
  readonly signal?: AbortSignal | undefined
  /** A snapshot to start from instead of the template. */
  readonly from?: SnapshotId | undefined
  /** How programs start, when `from` is a snapshot of files. */
  readonly image?: ProgramSettings | undefined
}

/** Starts a burrow for a sandbox that has no snapshot of its own. */
export async function burrowFromTemplate(
  deps: SandboxDependencies,
  row: SandboxRow,
  { signal, from, image }: FromTemplate = {},
): Promise<Burrow> {
  const { engine, quarantine, snapshots, secrets, templates } = deps
  const options = {
    sandboxId: row.id,
    limits: processLimits(row),
    env: secrets.envOf(row),
    volumes: mountsOf(row),
  }
  const restoreOptions = (id: SnapshotId): RestoreOptions => {
    quarantine.require(row, id)
    return { ...options, of: snapshots.get(id)?.sandboxId, ...(signal && { signal }) }
  }
  if (from !== undefined)
    return engine.restore(from, { ...restoreOptions(from), reason: 'fork', ...(image && { image }) })
  const built = templates.snapshotsOf(row.template, row.owner)
  if (built !== undefined && row.isolation !== 'process') {
    const { filesId = built.snapshotId, image, preparation } = built
    await templates.bring?.(filesId, row)
    const settings = { isolation: row.isolation, preparation, ...(image && { image }) }
    return engine.restore(filesId, { ...restoreOptions(filesId), reason: 'create', ...settings })
  }
  if (built !== undefined) {
    await templates.bring?.(built.snapshotId, row)
    return restoreTemplate(deps, built, { row, restoreOptions })
  }
  quarantine.requireTemplate(row.template)
  const create = { ...options, template: row.template, isolation: row.isolation }
  return engine.createBurrow(create, signal).catch((error: unknown) => {
    const isMissing = hasErrorCode(error, 'template_not_found')
    throw (isMissing && templates.notReady(row.template, row.owner)) || error
  })
}

/** Restores the processes of a built template; where this host cannot, boots on the template's files. */
async function restoreTemplate(
  { engine, log, templates }: SandboxDependencies,
  { snapshotId, filesId, image }: TemplateSnapshots,
  { row, restoreOptions }: { row: SandboxRow; restoreOptions: (id: SnapshotId) => RestoreOptions },
): Promise<Burrow> {
  if (filesId === undefined)
    return engine.restore(snapshotId, { ...restoreOptions(snapshotId), reason: 'fork' })
  try {
    return await engine.restore(snapshotId, { ...restoreOptions(snapshotId), reason: 'create' })
  } catch (error) {
    if (!hasErrorCode(error, 'snapshot_unusable')) throw error
    log.warn({ snapshotId, err: error }, 'a template boots, because its snapshot cannot be restored here')
    await templates.bring?.(filesId, row)
    return engine.restore(filesId, { ...restoreOptions(filesId), reason: 'fork', ...(image && { image }) })
  }
}
