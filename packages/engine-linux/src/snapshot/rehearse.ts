import { setTimeout as sleep } from 'node:timers/promises'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'

/** Python adapts the code of a function while it runs it the first times; after this many little changes. */
const TIMES = 20
const CONTEXT = 'rehearsal'
const END_CHECKS = 200
const END_CHECK_MS = 25

/**
 * Lets the agent and the kernel of a template do what every sandbox does first: wake, run code, close connections for a
 * sleep. While Python runs a function the first times it fills caches and rewrites the function's code. After a
 * rehearsal these writes are in the template's memory, which sandboxes share, and not in a copy of every sandbox.
 * The runs are in a context of their own, so the default context stays unused.
 */
export async function rehearse(burrow: LinuxBurrow): Promise<void> {
  const { guest, sandboxId } = burrow
  const before = (await burrow.pids()).length
  await guest.contexts.create({ context: CONTEXT })
  for (let time = 0; time < TIMES; time++) {
    await guest.wake({ sandboxId, reason: 'resume', reseed: true })
    await guest.runs.run({ code: 'print(1)\n1', context: CONTEXT })
    await guest.quiesce()
    guest.resume()
  }
  await guest.contexts.delete(CONTEXT)
  // The snapshot shall not save a process that ends.
  for (let check = 0; check < END_CHECKS && (await burrow.pids()).length > before; check++)
    await sleep(END_CHECK_MS)
  // Collects what the runs left, and makes the rest immortal.
  await guest.contexts.preload([])
}
