import type { BurrowLimitsInput, SnapshotId } from '@dormouse/contracts'
import type { RestoreOptions, VolumeMount } from '@dormouse/engine'
import type { SandboxRow } from '../../store/sandbox-rows.ts'
import type { SandboxDependencies } from '../sandbox-dependencies.ts'

/** A snapshot is restored with the limits and volumes that the sandbox has now, not with those it had when saved. */
export function currentOptions(
  { snapshots, secrets }: SandboxDependencies,
  row: SandboxRow,
  id: SnapshotId,
): Pick<RestoreOptions, 'limits' | 'volumes' | 'env'> {
  // Restored processes keep their environment. A snapshot of files alone boots, and needs one.
  const isBoot = snapshots.get(id)?.kind === 'files'
  return {
    limits: processLimits(row),
    volumes: mountsOf(row),
    ...(isBoot && { env: secrets.envOf(row) }),
  }
}

/** The limits that the engine enforces. The server itself enforces those of the disk: see disk-watch.ts. */
export function processLimits({
  limits: { memoryBytes, cpus, pids },
  atMemoryLimit,
}: Pick<SandboxRow, 'limits' | 'atMemoryLimit'>): BurrowLimitsInput {
  return { memoryBytes, cpus, pids, atMemoryLimit }
}

export function mountsOf({ volumes }: SandboxRow): VolumeMount[] {
  return volumes.map(({ volumeId, path, readOnly }) => ({ volumeId, path, readOnly }))
}
