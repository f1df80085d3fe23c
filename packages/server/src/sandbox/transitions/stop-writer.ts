import type { DiskUse } from '@dormouse/engine'
import type { Sandbox } from '../sandbox.ts'
import { requireExists } from '../sandbox-errors.ts'
import { lossOf } from './lose.ts'
import { standby } from './standby.ts'

/**
 * Puts a sandbox that has written more than its limits to standby. Does nothing if the limits were raised meanwhile.
 */
export function sleepOverLimit(sandbox: Sandbox, { bytes, files }: DiskUse): Promise<void> {
  return sandbox.exclusive(async () => {
    requireExists(sandbox)
    const { state, limits } = sandbox.row
    if (state !== 'running' || (bytes <= limits.diskBytes && files <= limits.files)) return
    await standby(sandbox, { tier: 'stored', cause: 'disk' })
    sandbox.write({ fields: { diskBytes: bytes, diskFiles: files } })
  })
}

/** Puts a sandbox that fills the disk of the host, or a full volume, to standby. */
export function sleepForHost(sandbox: Sandbox): Promise<void> {
  return sandbox.exclusive(async () => {
    requireExists(sandbox)
    if (sandbox.row.state === 'running') await standby(sandbox, { tier: 'stored', cause: 'disk' })
  })
}

/** Ends the processes of a sandbox that writes too much and cannot be saved. Keeps its files. */
export function endWriter(sandbox: Sandbox, use: DiskUse | undefined): Promise<void> {
  return sandbox.exclusive(async () => {
    requireExists(sandbox)
    const { burrow, row } = sandbox
    if (burrow === undefined || row.state !== 'running') return
    await lossOf(sandbox, burrow, { reason: 'killed' })()
    if (use !== undefined && !sandbox.isDeleted)
      sandbox.write({ fields: { diskBytes: use.bytes, diskFiles: use.files } })
  })
}
