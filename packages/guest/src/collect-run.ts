import {
  RUN_OUTPUT_MAX_BYTES,
  RUN_RESULTS_MAX_BYTES,
  type RunEvent,
  type RunResult,
} from '@dormouse/contracts'

/** Folds a run's events into one bounded result. */
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
    if (event.contextRestarted === true) {
      this.#result.contextRestarted =
        this.#result.error?.message ?? 'The kernel was replaced; its variables are gone.'
    }
  }
}

/**
 * Text of bounded size that keeps its beginning and its end: the beginning says what the output is, the end how it came out.
 * Lengths are counted in UTF-16 units, close enough to bytes for a bound.
 */
class BoundedText {
  readonly #halfBytes: number
  #head = ''
  #tail: string[] = []
  #tailBytes = 0
  lostBytes = 0

  constructor(maxBytes: number) {
    this.#halfBytes = maxBytes / 2
  }

  add(text: string): void {
    const room = this.#halfBytes - this.#head.length
    if (room >= text.length) {
      this.#head += text
      return
    }
    this.#head += text.slice(0, Math.max(0, room))
    const rest = text.slice(Math.max(0, room))
    this.#tail.push(rest)
    this.#tailBytes += rest.length
    // Whole pieces go first; the one that straddles the bound is cut when the text is asked for.
    while (this.#tailBytes - (this.#tail[0]?.length ?? 0) >= this.#halfBytes) {
      const dropped = this.#tail.shift() ?? ''
      this.#tailBytes -= dropped.length
      this.lostBytes += dropped.length
    }
  }

  lose(bytes: number): void {
    this.lostBytes += bytes
  }

  text(): string {
    let tail = this.#tail.join('')
    if (tail.length > this.#halfBytes) {
      this.lostBytes += tail.length - this.#halfBytes
      tail = tail.slice(-this.#halfBytes)
      this.#tail = [tail]
      this.#tailBytes = tail.length
    }
    return this.lostBytes === 0
      ? this.#head + tail
      : `${this.#head}\n… ${this.lostBytes} bytes left out …\n${tail}`
  }
}
