import type { ResultData, RunEvent, RunOptions, RunResult } from './run-options.ts'

/** The server's own bound for the collected output of a run, in characters here. Callbacks see everything. */
const OUTPUT_MAX = 4 * 1024 ** 2
const RESULTS_MAX = 64 * 1024 ** 2

/** Collects events into a result, and calls the listeners. */
export async function collectRun(
  events: AsyncIterable<RunEvent>,
  { onStdout, onStderr, onResult }: Pick<RunOptions, 'onStdout' | 'onStderr' | 'onResult'>,
): Promise<RunResult> {
  const stdout = new BoundedOutput()
  const stderr = new BoundedOutput()
  const results = new BoundedResults()
  const run: RunResult = { runId: '', stdout: '', stderr: '', exitCode: -1, results: [], durationMs: 0 }
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
      const text = event.data['text/plain']
      if (event.main === true && typeof text === 'string') run.text = text
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
  if (event.contextRestarted === true)
    run.contextRestarted = run.error?.message ?? 'The kernel was replaced; its variables are gone.'
}

/** Keeps the beginning and the end: the one says what it is, the other how it came out. */
export class BoundedOutput {
  #head = ''
  /** What the beginning may be long. Nothing is added to it behind a gap. */
  #headMax = OUTPUT_MAX / 2
  #tail: string[] = []
  #tailLength = 0
  lostBytes = 0

  add(text: string): void {
    const room = this.#headMax - this.#head.length
    this.#head += text.slice(0, room)
    const rest = text.slice(room)
    if (rest === '') return
    this.#tail.push(rest)
    this.#tailLength += rest.length
    for (;;) {
      const first = this.#tail[0] ?? ''
      if (this.#tailLength - first.length < OUTPUT_MAX / 2) return
      this.#tail.shift()
      this.#tailLength -= first.length
      this.lostBytes += first.length
    }
  }

  /** So much is missing here: what was added before is the beginning. */
  lose(bytes: number): void {
    this.lostBytes += bytes
    this.#headMax = this.#head.length
  }

  /** Once, at the end. */
  text(): string {
    const all = this.#tail.join('')
    const tail = all.slice(-OUTPUT_MAX / 2)
    this.lostBytes += all.length - tail.length
    if (this.lostBytes === 0) return this.#head + tail
    return `${this.#head}\n… ${this.lostBytes} bytes left out …\n${tail}`
  }
}

class BoundedResults {
  readonly kept: ResultData[] = []
  #bytes = 0
  lostBytes = 0

  add(data: ResultData): void {
    const bytes = Object.values(data).reduce<number>((sum, value) => sum + lengthOf(value), 0)
    if (this.#bytes + bytes > RESULTS_MAX) {
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
