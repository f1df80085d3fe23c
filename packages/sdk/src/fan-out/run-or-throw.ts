import { DormouseError } from '../error.ts'
import type { RunOptions, RunResult } from '../runs/run-options.ts'
import type { Sandbox } from '../sandbox.ts'

/** Runs code. Throws `run_failed`, with the run in `details.run`, if it fails. */
export async function runOrThrow(sandbox: Sandbox, code: string, options: RunOptions): Promise<RunResult> {
  const run = await sandbox.runCode(code, options)
  if (run.exitCode === 0 && run.error === undefined) return run
  const { error } = run
  const reason =
    error !== undefined
      ? `${error.name}: ${error.message}`
      : `exit code ${run.exitCode}${run.stderr === '' ? '' : `: ${run.stderr.slice(-500)}`}`
  throw new DormouseError('run_failed', reason, {
    hint: '`details.run` has the run with its traceback.',
    details: { run },
  })
}
