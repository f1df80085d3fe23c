import type { LiveSandbox } from './live-sandbox.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'

/** Saving is bound by the disk and the CPU alike. */
const AT_ONCE = 4

export interface AllAsleep {
  readonly asleep: number
  /** Not on disk: they run on, and the next server adopts them. */
  readonly left: number
  /** Among these, so many are being saved at this moment. */
  readonly underWay: number
}

/** Puts every sandbox on disk. What is not there in time, or cannot be saved, runs on. */
export async function standbyAll(registry: SandboxRegistry, timeoutMs: number): Promise<AllAsleep> {
  const deadline = performance.now() + timeoutMs
  // One that is just waking has no burrow yet.
  const awake = [...registry.all()].filter(
    ({ body }) => body.burrow !== undefined || body.row.state !== 'standby',
  )
  const waiting = [...awake]
  const asleep = new Set<LiveSandbox>()
  let underWay = 0
  const work = async () => {
    while (performance.now() <= deadline) {
      const sandbox = waiting.shift()
      if (sandbox === undefined) return
      underWay += 1
      try {
        if (sandbox.body.row.ephemeral) await sandbox.delete()
        else await sandbox.standby({ tier: 'stored', cause: 'shutdown' })
        asleep.add(sandbox)
      } catch (error) {
        if (sandbox.body.isDeleted) asleep.add(sandbox)
        else registry.parts.log.warn({ sandboxId: sandbox.id, err: error }, 'could not be put to standby')
      } finally {
        underWay -= 1
      }
    }
  }
  const all = Promise.all(Array.from({ length: AT_ONCE }, work))
  let timer: NodeJS.Timeout | undefined
  const patience = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeoutMs)
  })
  await Promise.race([all, patience])
  clearTimeout(timer)
  return { asleep: asleep.size, left: awake.length - asleep.size, underWay }
}
