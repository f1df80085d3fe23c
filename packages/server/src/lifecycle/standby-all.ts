import type { SandboxRegistry } from './sandbox-registry.ts'

/** Saving is bound by the disk and the CPU alike. */
const AT_ONCE = 4

/** Puts every sandbox on disk. What is not there in time, or cannot be saved, runs on: the next server adopts it. */
export async function standbyAll(
  registry: SandboxRegistry,
  timeoutMs: number,
): Promise<{ asleep: number; left: number }> {
  const deadline = performance.now() + timeoutMs
  const waiting = [...registry.all()].filter(({ body }) => body.burrow !== undefined)
  let asleep = 0
  let left = 0
  const work = async () => {
    for (let sandbox = waiting.shift(); sandbox !== undefined; sandbox = waiting.shift()) {
      if (performance.now() > deadline) {
        left += 1
        continue
      }
      try {
        if (sandbox.body.row.ephemeral) await sandbox.delete()
        else await sandbox.standby({ tier: 'stored', cause: 'shutdown' })
        asleep += 1
      } catch (error) {
        left += 1
        registry.parts.log.warn({ sandboxId: sandbox.id, err: error }, 'could not be put to standby')
      }
    }
  }
  const all = Promise.all(Array.from({ length: AT_ONCE }, work))
  const timer = new Promise<void>((resolve) => setTimeout(resolve, timeoutMs).unref())
  await Promise.race([all, timer])
  return { asleep, left: left + waiting.length }
}
