import { BoundedText } from './bounded-text.ts'
import type { Result } from './result.ts'
import type { RunEvent } from './run-event.ts'
import type { RunOptions } from './run-options.ts'
import { RunResult } from './run-result.ts'

/** The limit of the server for the collected output of a run or a process. Listeners get all output. */
export const OUTPUT_MAX_BYTES = 4 * 1024 ** 2
const RESULTS_MAX_CHARACTERS = 64 * 1024 ** 2

/** Collects events into a result, and calls the listeners. */
export async function collectRun(
  events: AsyncIterable<RunEvent>,
  { onStdout, onStderr, onResult }: Pick<RunOptions, 'onStdout' | 'onStderr' | 'onResult'>,
): Promise<RunResult> {
  const stdout = new BoundedText(OUTPUT_MAX_BYTES)
  const stderr = new BoundedText(OUTPUT_MAX_BYTES)
  const results = new BoundedResults()
  const run = new RunResult()
  for await (const event of events) {
    if (event.type === 'start') {
      run.runId = event.runId
      if (event.contextRestarted !== undefined) run.contextRestarted = event.contextRestarted
    } else if (event.type === 'stdout') {
      stdout.add(event.data)
      onStdout?.(event.data)
    } else if (event.type === 'stderr') {
      stderr.add(event.data)
      onStderr?.(event.data)
    } else if (event.type === 'result') {
      results.add(event.data)
      const { text } = event.data
      if (event.main === true && text !== undefined) run.text = text
      onResult?.(event.data)
    } else if (event.type === 'error') {
      const { name, message, traceback } = event
      run.error = { name, message, traceback }
    } else if (event.type === 'truncated') stdout.lose(event.bytes)
    else if (event.type === 'exit') end(run, event)
  }
  Object.assign(run, { stdout: stdout.text(), stderr: stderr.text(), results: results.kept })
  const [stdoutBytes, stderrBytes, resultBytes] = [stdout.lostBytes, stderr.lostBytes, results.lostBytes]
  if (stdoutBytes + stderrBytes + resultBytes > 0) run.truncated = { stdoutBytes, stderrBytes, resultBytes }
  return run
}

function end(run: RunResult, event: RunEvent & { type: 'exit' }): void {
  run.exitCode = event.exitCode
  run.durationMs = event.durationMs
  if (event.timedOut === true) run.timedOut = true
  if (event.interrupted === true) run.interrupted = true
  if (event.outOfMemory !== undefined) run.outOfMemory = event.outOfMemory
  if (event.contextRestarted === true)
    run.contextRestarted = run.error?.message ?? 'The kernel was replaced; its variables are gone.'
}

class BoundedResults {
  readonly kept: Result[] = []
  #bytes = 0
  lostBytes = 0

  add(data: Result): void {
    const bytes = Object.values(data).reduce<number>((sum, value) => sum + lengthOf(value), 0)
    if (this.#bytes + bytes > RESULTS_MAX_CHARACTERS) {
      this.lostBytes += bytes
      return
    }
    this.#bytes += bytes
    this.kept.push(data)
  }
}

function lengthOf(value: unknown): number {
  return typeof value === 'string' ? value.length : (JSON.stringify(value)?.length ?? 0)
}
