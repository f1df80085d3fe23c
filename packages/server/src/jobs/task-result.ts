import { BoundedText, type RunEvent } from '@dormouse/contracts'
import type { TaskAnswer, TaskResultAnswer } from '@dormouse/contracts/http'
import { RunCollector } from '@dormouse/guest'
import {
  ERROR_TEXT_MAX_BYTES,
  RESULT_STREAM_MAX_BYTES,
  RESULT_VALUES_MAX_BYTES,
  SHORT_RESULT_MAX_BYTES,
} from './limits.ts'

/** Collects the events of an attempt into a result that is small enough to keep. */
export class TaskResultCollector {
  readonly #run: RunCollector
  #mainText: string | undefined
  #mainResult: number | undefined
  #hasEnded = false
  #results = 0

  constructor(runId: string) {
    this.#run = new RunCollector(runId)
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  add(event: RunEvent): void {
    this.#run.add(event)
    if (event.type === 'exit') this.#hasEnded = true
    if (event.type !== 'result') return
    if (event.main === true) {
      const text = event.data['text/plain']
      this.#mainText = typeof text === 'string' ? text : undefined
      this.#mainResult = this.#results
    }
    this.#results += 1
  }

  result(): TaskResultAnswer {
    const text = this.#mainText
    return {
      ...this.#run.result(),
      ...(text !== undefined && { text }),
      ...(this.#mainResult !== undefined && { mainResult: this.#mainResult }),
    }
  }
}

/** Cuts a result. `isShort`: the job has many results already. */
export function boundResult(result: TaskResultAnswer, { isShort }: { isShort: boolean }): TaskResultAnswer {
  const streamBytes = isShort ? SHORT_RESULT_MAX_BYTES : RESULT_STREAM_MAX_BYTES
  const stdout = bounded(result.stdout, streamBytes)
  const stderr = bounded(result.stderr, streamBytes)
  let room = isShort ? SHORT_RESULT_MAX_BYTES : RESULT_VALUES_MAX_BYTES
  let lostBytes = 0
  const results = result.results.filter((data) => {
    const bytes = Buffer.byteLength(JSON.stringify(data))
    // What comes after a value that is too large is left out, too: `mainResult` counts from the first.
    const fits = lostBytes === 0 && bytes <= room
    if (fits) room -= bytes
    else lostBytes += bytes
    return fits
  })
  const missing = {
    stdoutBytes: stdout.lostBytes + (result.truncated?.stdoutBytes ?? 0),
    stderrBytes: stderr.lostBytes + (result.truncated?.stderrBytes ?? 0),
    resultBytes: lostBytes + (result.truncated?.resultBytes ?? 0),
  }
  const isCut = missing.stdoutBytes + missing.stderrBytes + missing.resultBytes > 0
  const { mainResult, text, error, truncated: _, ...rest } = result
  return {
    ...{ ...rest, stdout: stdout.text(), stderr: stderr.text(), results },
    ...(text !== undefined && { text: bounded(text, streamBytes).text() }),
    ...(mainResult !== undefined && mainResult < results.length && { mainResult }),
    ...(error && { error: boundError(error) }),
    ...(isCut && { truncated: missing }),
  }
}

/** Why an attempt failed. Undefined: it succeeded. */
export function failureOf(
  result: TaskResultAnswer,
): { reason: NonNullable<TaskAnswer['reason']>; message: string } | undefined {
  const { exitCode, error, timedOut, outOfMemory } = result
  if (timedOut === true) return { reason: 'timed_out', message: 'The task took longer than its time-out.' }
  if (outOfMemory !== undefined) return { reason: 'out_of_memory', message: short(outOfMemory) }
  if (error !== undefined) return { reason: 'failed', message: short(`${error.name}: ${error.message}`) }
  if (exitCode !== 0) return { reason: 'failed', message: `exit code ${exitCode}` }
  return undefined
}

function boundError(error: NonNullable<TaskResultAnswer['error']>) {
  const text = (value: string) => bounded(value, ERROR_TEXT_MAX_BYTES).text()
  return { name: text(error.name), message: text(error.message), traceback: text(error.traceback) }
}

export function short(text: string): string {
  return bounded(text, SHORT_RESULT_MAX_BYTES).text()
}

function bounded(text: string, maxBytes: number): BoundedText {
  const kept = new BoundedText(maxBytes)
  kept.add(text)
  return kept
}
