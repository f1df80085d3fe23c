import { newSandboxId } from '@dormouse/contracts'
import type { LinuxEngine } from '@dormouse/engine-linux'
import type { LinuxBurrow } from '../../packages/engine-linux/src/burrow/linux-burrow.ts'
import { guestToolsDir } from '../../packages/engine-linux/src/guest-tools.ts'
import type { FailureLog } from '../../packages/engine-linux/src/host/failure-log.ts'
import { type MovedMemory, moveMemory } from '../../packages/engine-linux/src/snapshot/move-memory.ts'
import { testDataDir } from '../test-data-dir.ts'

/** A move that fails is a failure of the test. */
const failures = {
  report: (_kind: string, error: unknown) => {
    throw error
  },
} as unknown as FailureLog

export async function createBurrow(engine: LinuxEngine): Promise<LinuxBurrow> {
  const limits = { memoryBytes: 2 * 1024 ** 3, cpus: 2, pids: 500 }
  return (await engine.createBurrow({
    sandboxId: newSandboxId(),
    template: 'python',
    limits,
  })) as unknown as LinuxBurrow
}

/** Runs Python and returns what it prints. Throws when it fails. */
export async function python(burrow: Pick<LinuxBurrow, 'guest'>, code: string): Promise<string> {
  const run = await burrow.guest.runs.run({ code })
  if (run.exitCode !== 0) throw new Error(run.stderr || JSON.stringify(run))
  return run.stdout.trim()
}

export function toolsDirOf(burrow: LinuxBurrow): string {
  return guestToolsDir(testDataDir, burrow.record.tools)
}

export function move(burrow: LinuxBurrow, signal?: AbortSignal): Promise<MovedMemory> {
  return moveMemory(burrow, { toolsDir: toolsDirOf(burrow), failures, signal })
}
