import type { MountedVolume, VolumeMount } from '../../store/sandbox-rows.ts'
import type { Sandbox } from '../sandbox.ts'
import { standby } from './standby.ts'
import { wake } from './wake.ts'

/**
 * Replaces the volumes of a sandbox. Pre: the caller holds the lock alone. A running one is saved and continues with the
 * new ones; if it cannot, it continues with the old ones and the error says why. A sleeping one stays asleep.
 */
export async function remount(sandbox: Sandbox, wanted: readonly VolumeMount[]): Promise<void> {
  const { row, deps } = sandbox
  const volumes = deps.volumes.resolve(wanted, { keyId: row.owner, isAdmin: false })
  const wasRunning = row.state === 'running'
  // A frozen burrow has the old volumes.
  if (wasRunning || row.tier === 'frozen') await standby(sandbox, { tier: 'stored', cause: 'volumes' })
  write(sandbox, volumes)
  if (!wasRunning) return
  try {
    await wake(sandbox, 'volumes')
  } catch (error) {
    write(sandbox, row.volumes)
    await wake(sandbox, 'volumes')
    throw error
  }
}

function write(sandbox: Sandbox, volumes: readonly MountedVolume[]): void {
  const detail = volumes.map(({ volume, path, readOnly }) => `${volume}:${path}${readOnly ? ':ro' : ''}`)
  sandbox.write({
    fields: { volumes },
    entry: { event: 'changed', cause: 'asked', detail: `volumes: ${detail.join(', ') || 'none'}` },
  })
}
