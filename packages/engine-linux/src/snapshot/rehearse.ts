import type { LinuxBurrow } from '../burrow/linux-burrow.ts'

/** Python adapts the code of a function while it runs it the first times; after this many little changes. */
const TIMES = 20
/** What cells often do: import, define, assign the result of a call, print, show a value. */
const CODE = `import sys
def double(value):
    return value * 2
text = str(double(1))
print(text)
text`

/**
 * Lets the agent and the kernel of a template do what every sandbox does first: wake, run code, close connections for a
 * sleep. While Python runs a function the first times it fills caches and rewrites the function's code. After a
 * rehearsal these writes are in the template's memory, which sandboxes share, and not in a copy of every sandbox.
 * The second half is for the copies of code that the first half leads to. Afterwards the kernel has forgotten the runs.
 */
export async function rehearse(burrow: LinuxBurrow): Promise<void> {
  const { contexts } = burrow.guest
  await contexts.settle()
  await wakeAndRun(burrow)
  await contexts.settle({ gather: true })
  await wakeAndRun(burrow)
  await contexts.settle()
}

async function wakeAndRun({ guest, sandboxId }: LinuxBurrow): Promise<void> {
  for (let time = 0; time < TIMES; time++) {
    await guest.wake({ sandboxId, reason: 'resume', reseed: true })
    await guest.runs.run({ code: CODE })
    await guest.quiesce()
    guest.resume()
  }
}
