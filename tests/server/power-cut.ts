import { readdir, readFile, rm } from 'node:fs/promises'
import { isBurrowId } from '@dormouse/contracts'
import type { LinuxFactory } from '../engine-linux/linux-factory.ts'
import { isAlive, killProcess } from '../kill-process.ts'

/** No process is left, and nothing of what the kernel keeps in memory. Pre: the server is dead already. */
export async function powerCut({ layout }: LinuxFactory): Promise<void> {
  for (const name of (await readdir(layout.burrowsDir)).filter(isBurrowId)) {
    const [pid] = (await readFile(layout.burrow(name).pidFile, 'utf8').catch(() => '')).split(' ')
    if (pid !== '' && isAlive(Number(pid))) await killProcess(Number(pid))
  }
  await rm(layout.runDir, { recursive: true, force: true })
}
