import { readdir, readFile, rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { isBurrowId } from '@dormouse/contracts'
import type { LinuxFactory } from '../engine-linux/linux-factory.ts'
import { sendSignal } from '../send-signal.ts'

/** No process is left, and nothing of what the kernel keeps in memory. Pre: the server is dead already. */
export async function powerCut({ layout }: LinuxFactory): Promise<void> {
  for (const name of (await readdir(layout.burrowsDir)).filter(isBurrowId)) {
    const [pid] = (await readFile(layout.burrow(name).pidFile, 'utf8').catch(() => '')).split(' ')
    if (pid === undefined || pid === '' || !(await isAlive(pid))) continue
    sendSignal(Number(pid), 'SIGKILL')
    // The first process of a PID namespace is the last one to go.
    while (await isAlive(pid)) await sleep(5)
  }
  await rm(layout.runDir, { recursive: true, force: true })
}

async function isAlive(pid: string): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => 'State:\tX')
  return !/^State:\s+[XZ]/m.test(status)
}
