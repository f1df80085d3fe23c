import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import type { Template } from '../template/template-store.ts'
import { type RestoreBurrow, type RestoreSource, restoreBurrow } from './restore-burrow.ts'
import type { SnapshotEngine } from './snapshot-engine.ts'
import { findTemplateSnapshot, makeTemplateSnapshot, removeUnfinished } from './template-snapshot.ts'

type CreateRequest = Pick<RestoreBurrow, 'sandboxId' | 'limits' | 'volumes' | 'user' | 'env' | 'signal'>

/**
 * Makes a burrow for a new sandbox from the snapshot of its template; undefined when there is none that can be used.
 */
export async function createFromTemplate(
  engine: SnapshotEngine,
  template: Template,
  request: CreateRequest,
): Promise<LinuxBurrow | undefined> {
  const source = await findSource(engine, template)
  if (source === undefined) return undefined
  engine.dumper.prepare()
  request.signal?.throwIfAborted()
  return createFrom(engine, source, request)
}

/** Claims a reserved burrow, or restores one. Pre: no process of a user has run in the snapshot. */
export async function createFrom(
  { host, reserve }: SnapshotEngine,
  source: RestoreSource,
  request: CreateRequest,
): Promise<LinuxBurrow> {
  const restore = { ...source, ...request, reason: 'create' as const, reseed: true }
  // Reserved burrows have no volumes.
  if (request.volumes.length > 0) return restoreBurrow(host, restore)
  const burrow = (await reserve.claim(source, restore)) ?? (await restoreBurrow(host, restore))
  reserve.expect(source, burrow)
  return burrow
}

/** A sandbox of this template is likely to be created: restores one ahead of need. */
export async function expectCreate(
  engine: SnapshotEngine,
  template: Template,
  { hasNetwork }: { hasNetwork: boolean },
): Promise<void> {
  const source = await findSource(engine, template)
  if (source !== undefined) engine.reserve.expect(source, { hasNetwork })
}

export async function isTemplatePrepared(engine: SnapshotEngine, template: Template): Promise<boolean> {
  return (await findSource(engine, template)) !== undefined
}

export async function prepareTemplate(engine: SnapshotEngine, template: Template): Promise<void> {
  if (await isTemplatePrepared(engine, template)) return
  const { host, toolsDir, dumper } = engine
  await removeUnfinished(template)
  await makeTemplateSnapshot(host, { template, toolsDir, dumper })
}

async function findSource(
  { host, toolsDir, dumper }: SnapshotEngine,
  template: Template,
): Promise<RestoreSource | undefined> {
  const found = await findTemplateSnapshot({ template, toolsDir, dumper }, host.failures)
  return found && { ...found, template, toolsDir }
}
