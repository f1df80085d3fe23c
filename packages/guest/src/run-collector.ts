import {
  BoundedText,
  RUN_OUTPUT_MAX_BYTES,
  RUN_RESULTS_MAX_BYTES,
  type RunEvent,
  type RunResult,
} from '@dormouse/contracts'

/** Collects the events of a run into one bounded result. */
export class RunCollector {
  readonly #stdout = new BoundedText(RUN_OUTPUT_MAX_BYTES)
  readonly #stderr = new BoundedText(RUN_OUTPUT_MAX_BYTES)
  #resultBytes = 0
  #droppedResultBytes = 0
  readonly #result: RunResult

  constructor(runId: string) {
    this.#result = { runId, stdout: '', stderr: '', exitCode: -1, results: [], durationMs: 0 }
  }

  add(event: RunEvent): void {
    if (event.type === 'stdout') this.#stdout.add(event.data)
    else if (event.type === 'stderr') this.#stderr.add(event.data)
    else if (event.type === 'truncated') this.#stdout.lose(event.bytes)
    else if (event.type === 'result') this.#addResult(event.data)
    else if (event.type === 'error') {
      const { name, message, traceback } = event
      this.#result.error = { name, message, traceback }
    } else if (event.type === 'start') {
      if (event.contextRestarted !== undefined) this.#result.contextRestarted = event.contextRestarted
    } else if (event.type === 'exit') this.#exit(event)
  }

  result(): RunResult {
    this.#result.stdout = this.#stdout.text()
    this.#result.stderr = this.#stderr.text()
    const stdoutBytes = this.#stdout.lostBytes
    const stderrBytes = this.#stderr.lostBytes
    const resultBytes = this.#droppedResultBytes
    if (stdoutBytes + stderrBytes + resultBytes > 0)
      this.#result.truncated = { stdoutBytes, stderrBytes, resultBytes }
    return this.#result
  }

  #addResult(data: Record<string, unknown>): void {
    const bytes = JSON.stringify(data).length
    if (this.#resultBytes + bytes > RUN_RESULTS_MAX_BYTES) {
      this.#droppedResultBytes += bytes
      return
    }
    this.#resultBytes += bytes
    this.#result.results.push(data)
  }

  #exit(event: RunEvent & { type: 'exit' }): void {
    this.#result.exitCode = event.exitCode
    this.#result.durationMs = event.durationMs
    if (event.timedOut === true) this.#result.timedOut = true
    if (event.interrupted === true) this.#result.interrupted = true
    if (event.outOfMemory !== undefined) this.#result.outOfMemory = event.outOfMemory
    if (event.contextRestarted === true) {
      this.#result.contextRestarted =
        this.#result.error?.message ?? 'The kernel was replaced; its variables are gone.'
    }
  }
}
