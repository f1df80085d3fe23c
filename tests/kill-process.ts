import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { sendSignal } from './send-signal.ts'

/** Ends a process with SIGKILL. Post: it has ended, and with the first process of a pid namespace all others of it. */
export async function killProcess(pid: number): Promise<void> {
  sendSignal(pid, 'SIGKILL')
  while (isAlive(pid)) await sleep(5)
}

export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[XZ]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}
