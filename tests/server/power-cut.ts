import { readdir, rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { isBurrowId } from '@dormouse/contracts'
import type { LinuxFactory } from '../engine-linux/linux-factory.ts'

/** No process is left, and nothing of what the kernel keeps in memory. Pre: the server is dead already. */
export async function powerCut({ layout, killBurrow }: LinuxFactory): Promise<void> {
  for (const name of await readdir(layout.burrowsDir)) {
    if (isBurrowId(name)) await killBurrow(name).catch(() => {})
  }
  await sleep(500)
  await rm(layout.runDir, { recursive: true, force: true })
}
