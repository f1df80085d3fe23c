import type { VolumeId } from '@dormouse/contracts'
import type { Log } from '../log.ts'
import type { Sandboxes } from './sandboxes.ts'

/**
 * Puts sandboxes of a key to standby that mount a volume which the key may not use any more, or only read. A frozen one
 * stays frozen: its wake is refused like that of the others.
 */
export function stopUsers(
  sandboxes: Sandboxes,
  { id, keyId, log }: { id: VolumeId; keyId: string; log: Log },
): void {
  for (const sandbox of sandboxes.all()) {
    const { row } = sandbox
    const mounts = row.volumes.some(({ volumeId }) => volumeId === id)
    if (row.owner !== keyId || !mounts || row.state !== 'running') continue
    sandbox
      .standby({ tier: 'stored', cause: 'unshared' })
      .catch((err: unknown) =>
        log.error(
          { sandboxId: sandbox.id, err },
          'a sandbox still uses a volume that is not shared any more',
        ),
      )
  }
}
