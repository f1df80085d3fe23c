import { burrowLimitsSchema, parseInput, type SnapshotId } from '@dormouse/contracts'
import type { RestoreOptions } from '@dormouse/engine'
import { bootBurrow } from '../burrow/boot-burrow.ts'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { guestToolsDir } from '../guest-tools.ts'
import { whileReading } from '../storage/snapshot-readers.ts'
import { refuseNewerCriu, unusable } from '../storage/verify-snapshot.ts'
import { getTemplateBuild } from '../template/template-store.ts'
import { volumeMountsSchema } from '../volume/volume-mounts.ts'
import { requireVolumes } from '../volume/volume-store.ts'
import { createFrom } from './create-from-template.ts'
import { restoreBurrow } from './restore-burrow.ts'
import type { SnapshotEngine } from './snapshot-engine.ts'

/** Makes a burrow from a stored snapshot: of kind `full` by a restore, of kind `files` by a boot. */
export function restoreSnapshot(
  engine: SnapshotEngine,
  id: SnapshotId,
  options: RestoreOptions,
): Promise<LinuxBurrow> {
  return whileReading(engine.host.layout.snapshot(id).dir, () => restoreFound(engine, id, options))
}

async function restoreFound(
  engine: SnapshotEngine,
  id: SnapshotId,
  options: RestoreOptions,
): Promise<LinuxBurrow> {
  const { host, dataDir, dumper } = engine
  const { sandboxId, user, env, signal, reason = 'resume', reseed = true } = options
  const { paths, manifest } = await engine.find(id)
  if (options.of !== undefined && manifest.sandboxId !== options.of)
    throw unusable('it was taken of another sandbox')
  const limits = parseInput(burrowLimitsSchema, { ...manifest.limits, ...options.limits }, 'limits')
  const volumes = parseInput(volumeMountsSchema, options.volumes ?? manifest.volumes, 'volumes')
  requireVolumes(volumes, host.layout.volumesDir)
  const template = await getTemplateBuild(dataDir, manifest.template)
  dumper.prepare()
  if (manifest.kind === 'files') {
    await engine.store.checkLayers(manifest)
    const request = { sandboxId, template: template.name, ...(user && { user }), ...(env && { env }) }
    const files = { layers: manifest.layers, snapshotId: id }
    const image = options.image ?? manifest.image
    const { toolsDir } = engine
    return bootBurrow(host, { request, volumes, limits, template, toolsDir, files, image, signal })
  }
  refuseNewerCriu(manifest, dumper.criuVersion)
  const source = { paths, manifest, template, toolsDir: guestToolsDir(dataDir, manifest.tools) }
  if (reason === 'create')
    return createFrom(engine, source, { sandboxId, limits, volumes, user, env, signal })
  // The wall clock may have been set back.
  const passedMs = options.passTime === true ? Math.max(0, Date.now() - Date.parse(manifest.createdAt)) : 0
  const { connections } = options
  const how = { sandboxId, limits, volumes, reason, reseed, env, signal, passedMs, connections }
  return restoreBurrow(host, { ...source, ...how })
}

/** Restores an older snapshot beside the burrow, which ends only when the new one answers. */
export async function rollBackBurrow(
  engine: SnapshotEngine,
  burrow: LinuxBurrow,
  id: SnapshotId,
): Promise<LinuxBurrow> {
  const { sandboxId, record } = burrow
  const next = await restoreSnapshot(engine, id, { sandboxId, reason: 'rollback', volumes: record.volumes })
  await engine.destroyBurrow(burrow)
  return next
}
