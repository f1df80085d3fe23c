import { settleAll, settledWithin } from '@dormouse/async'
import type { Log } from '../log.ts'
import type { Sandbox } from './sandbox.ts'
import type { Sandboxes } from './sandboxes.ts'

/** Saving is bound by the disk and the CPU alike. */
const CONCURRENCY = 4

export interface StandbyReport {
  readonly asleep: number
  /** Still running: the next server adopts them. */
  readonly left: number
  /** How many of `left` are being saved at this moment. */
  readonly underWay: number
}

/** Puts every sandbox on disk. Those that cannot be saved within `timeoutMs` keep running. */
export async function standbyAll(sandboxes: Sandboxes, log: Log, timeoutMs: number): Promise<StandbyReport> {
  const deadline = performance.now() + timeoutMs
  // A sandbox that is just waking has no burrow yet.
  const awake = [...sandboxes.all()].filter(
    ({ burrow, row }) => burrow !== undefined || row.state !== 'standby',
  )
  const asleep = new Set<Sandbox>()
  let underWay = 0
  const save = async (sandbox: Sandbox) => {
    if (performance.now() > deadline) return
    underWay += 1
    try {
      await sandbox.standby({ tier: 'stored', cause: 'shutdown' })
      asleep.add(sandbox)
    } catch (error) {
      if (sandbox.isDeleted) asleep.add(sandbox)
      else log.warn({ sandboxId: sandbox.id, err: error }, 'a sandbox could not be put to standby')
    } finally {
      underWay -= 1
    }
  }
  const all = settleAll(
    awake.map((sandbox) => () => save(sandbox)),
    CONCURRENCY,
  )
  await settledWithin(all, timeoutMs)
  return { asleep: asleep.size, left: awake.length - asleep.size, underWay }
}
