import type { RunOptions } from '../runs/run-options.ts'
import type { RunResult } from '../runs/run-result.ts'
import type { Sandbox } from '../sandbox.ts'

/** Runs code. Throws `run_failed` or `run_timed_out` if it fails. */
export async function runOrThrow(sandbox: Sandbox, code: string, options: RunOptions): Promise<RunResult> {
  return (await sandbox.runCode(code, options)).check()
}
