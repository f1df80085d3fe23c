import { DormouseError } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { SandboxRow } from '../../store/sandbox-rows.ts'
import { endBurrow } from '../end-burrow.ts'
import { requireMemoryLimit } from '../paused.ts'
import type { Sandbox } from '../sandbox.ts'
import { noSuchSandbox } from '../sandbox-errors.ts'
import type { WakeCause } from '../use-options.ts'
import { burrowFromTemplate } from './burrow-from-template.ts'
import { recordFailedWake, recordWake } from './record-wake.ts'
import { currentOptions } from './restore-options.ts'

/** Wakes a sandbox. Pre: the caller holds the lock alone. On failure the sandbox still sleeps. */
export async function wake(sandbox: Sandbox, cause: WakeCause): Promise<void> {
  const { row, deps, burrow } = sandbox
  if (row.state === 'running') {
    // The caller would come back at once, for ever.
    if (burrow === undefined) throw new DormouseError('internal', 'A running sandbox has no burrow.')
    return
  }
  if (row.state !== 'standby') throw noSuchSandbox(row.id)
  deps.ownership?.require(row.id)
  deps.quotas.requireRunning(row)
  requireDiskLimits(row)
  requireMemoryLimit(row)
  deps.quarantine.require(row, row.head)
  deps.disk.requireRoomToWrite(row)
  if (row.tier === 'frozen' && burrow !== undefined) await thaw(sandbox, burrow, cause)
  else await restore(sandbox, cause)
}

/** See `Sandbox.thawNow`. */
export function thawNow(sandbox: Sandbox, cause: WakeCause): Promise<void> | undefined {
  const isFrozen = sandbox.row.tier === 'frozen' && sandbox.burrow !== undefined
  return isFrozen && sandbox.lock.isFree ? sandbox.wake(cause) : undefined
}

async function thaw(sandbox: Sandbox, burrow: Burrow, cause: WakeCause): Promise<void> {
  const { deps, id } = sandbox
  const began = performance.now()
  // Written before anything runs: a burrow whose row says `frozen` has not changed since its snapshot.
  sandbox.move(['resuming', 'running'], {
    fields: { tier: undefined, pausedAtBytes: undefined },
    entry: { event: 'woke', cause, tier: 'frozen', bytes: 0 },
    withoutSync: true,
  })
  sandbox.work.woke(cause)
  await sandbox.recordOutcome(async () => {
    deps.network.thawed(id, burrow)
    await burrow.thaw()
    const latencyMs = performance.now() - began
    deps.ledger.wakeTook(id, latencyMs)
    const { row } = sandbox
    // The caller that waits for the wake comes before the listeners.
    setImmediate(() => {
      for (const listener of deps.listeners) listener.woke?.(row, { tier: 'frozen', latencyMs })
    })
  })
}

async function restore(sandbox: Sandbox, cause: WakeCause): Promise<void> {
  const { row, deps } = sandbox
  const began = performance.now()
  // Does not wait for the disk: after a power cut the sandbox sleeps as before, at the snapshot it woke from.
  sandbox.move('resuming', { intent: 'wake', withoutSync: true })
  let burrow: Burrow
  try {
    deps.disk.makeRoomToWake()
    burrow = await deps.starts.run(row.owner, () => ownBurrow(sandbox))
  } catch (error) {
    await recordFailedWake(sandbox, error)
    throw error
  }
  await recordWake(sandbox, burrow, { cause, latencyMs: performance.now() - began })
}

/** It takes a while, in which another host may have continued the sandbox. */
async function ownBurrow(sandbox: Sandbox): Promise<Burrow> {
  const { deps, id } = sandbox
  const burrow = await burrowFromHead(sandbox)
  try {
    deps.ownership?.require(id)
    return burrow
  } catch (error) {
    await endBurrow(deps, burrow)
    throw error
  }
}

/** A sandbox that never slept and lost its processes has no head, and starts from its template. */
function burrowFromHead({ row, deps }: Sandbox): Promise<Burrow> {
  if (row.head === undefined) return burrowFromTemplate(deps, row)
  return deps.engine.restore(row.head, {
    sandboxId: row.id,
    of: row.headOf ?? row.id,
    reason: 'resume',
    passTime: row.wakeOnTimer,
    connections: deps.network.connectionsIn(row.id, row.head),
    ...currentOptions(deps, row, row.head),
  })
}

/** A sandbox that was stopped because it wrote too much wakes when its limits are raised. */
function requireDiskLimits({ diskBytes, diskFiles, limits }: SandboxRow): void {
  if (diskFiles !== undefined && diskFiles > limits.files)
    throw new DormouseError(
      'limit_reached',
      `The sandbox has made ${diskFiles} files or more; its limit is ${limits.files}.`,
      {
        hint: 'Raise the limit, then delete inside what is not needed: `dormouse update SANDBOX --files NUMBER`, or `limits.files` of an update by HTTP or an SDK. Or roll back to a snapshot.',
        details: { limit: 'files', used: diskFiles, limitFiles: limits.files },
      },
    )
  if (diskBytes === undefined || diskBytes <= limits.diskBytes) return
  throw new DormouseError(
    'limit_reached',
    `The sandbox has written ${diskBytes} bytes; its limit is ${limits.diskBytes}.`,
    {
      hint: 'Raise the limit, then delete inside what is not needed: `dormouse update SANDBOX --disk SIZE`, or `limits.diskBytes` of an update by HTTP or an SDK.',
      details: { limit: 'diskBytes', usedBytes: diskBytes, limitBytes: limits.diskBytes },
    },
  )
}
