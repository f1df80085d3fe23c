import { readdir, readFile } from 'node:fs/promises'
import type { BurrowId } from '@dormouse/contracts'
import type { LinuxFactory } from '../../engine-linux/linux-factory.ts'

/** Kills the agent or PID 1 of a sandbox, as the kernel does for want of memory. False when it lives in no burrow. */
export async function killInside(
  factory: LinuxFactory,
  sandboxId: string,
  what: 'killAgent' | 'killBurrow',
): Promise<boolean> {
  for (const name of await readdir(factory.layout.burrowsDir)) {
    const id = name as BurrowId
    const record = JSON.parse(await readFile(factory.layout.burrow(id).record, 'utf8').catch(() => '{}'))
    if (record.sandboxId !== sandboxId) continue
    // It may end by itself at this moment.
    return factory[what](id).then(
      () => true,
      () => false,
    )
  }
  return false
}
