import { existsSync } from 'node:fs'
import { readdir, readFile, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { MicrovmLayout } from '../../packages/engine-microvm/src/host/microvm-layout.ts'
import { killProcess } from '../kill-process.ts'
import { testDataDir } from '../test-data-dir.ts'

/**
 * Ends the machines that a killed server has left: a server has this engine where set-up has installed QEMU, and keeps
 * some machines ahead of need.
 */
export async function removeMachines(stateDir: string, cgroupMounts: Iterable<string>): Promise<void> {
  const { runDir, cgroupName } = new MicrovmLayout(stateDir, testDataDir)
  if (!existsSync(runDir)) return
  const parents = [...cgroupMounts].map((mount) => join(mount, cgroupName))
  for (const parent of parents)
    for (const entry of await readdir(parent, { withFileTypes: true }).catch(() => []))
      if (entry.isDirectory()) await killMembers(join(parent, entry.name))
  for (const parent of parents) {
    for (const entry of await readdir(parent, { withFileTypes: true }).catch(() => []))
      if (entry.isDirectory()) await rmdir(join(parent, entry.name)).catch(() => {})
    await rmdir(parent).catch(() => {})
  }
  await rm(runDir, { recursive: true, force: true })
}

async function killMembers(cgroup: string): Promise<void> {
  const pids = await readFile(join(cgroup, 'cgroup.procs'), 'utf8').catch(() => '')
  for (const pid of pids.split('\n').filter((line) => line !== '')) await killProcess(Number(pid))
}
