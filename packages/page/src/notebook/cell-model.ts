import { signal } from '@preact/signals'
import type { Run, RunEvent, Sandbox } from 'dormouse'

/** One output of a run, in the order in which they came. */
export type Output =
  | { readonly kind: 'text'; readonly stream: 'stdout' | 'stderr'; readonly text: string }
  | { readonly kind: 'result'; readonly data: Readonly<Record<string, unknown>>; readonly isMain: boolean }
  | { readonly kind: 'error'; readonly name: string; readonly message: string; readonly traceback: string }
  | { readonly kind: 'input'; readonly seq: number; readonly prompt: string; readonly isHidden: boolean }
  | { readonly kind: 'truncated'; readonly bytes: number }

/** A browser shows no more text than this well; the journal has the rest. */
const TEXT_MAX = 200_000

/** One run as a cell of the notebook. Reads its events when it comes into view, and follows it while it runs. */
export class CellModel {
  readonly run: Run
  readonly outputs = signal<readonly Output[]>([])
  readonly state = signal<Run['state']>('queued')
  readonly exit = signal<Extract<RunEvent, { type: 'exit' }> | undefined>(undefined)
  readonly problem = signal<string | undefined>(undefined)
  readonly #sandbox: Sandbox
  #stop: AbortController | undefined
  #lastSeq = -1
  #waiting: Output[] = []
  #frame = 0

  constructor(sandbox: Sandbox, run: Run) {
    this.#sandbox = sandbox
    this.run = run
    this.state.value = run.state
  }

  /** Reads what is recorded, and follows the rest. Does not wake the sandbox. */
  read(): void {
    if (this.#stop !== undefined) return
    const stop = new AbortController()
    this.#stop = stop
    void this.#follow(stop.signal)
  }

  close(): void {
    this.#stop?.abort()
    this.#stop = undefined
    cancelAnimationFrame(this.#frame)
    this.#frame = 0
  }

  async #follow(stop: AbortSignal): Promise<void> {
    try {
      const events = this.#sandbox.runs.events(this.run.runId, { signal: stop, after: this.#lastSeq })
      for await (const event of events) this.take(event)
    } catch (error) {
      if (stop.aborted) return
      this.problem.value = error instanceof Error ? error.message : String(error)
      this.#stop = undefined
    }
  }

  take(event: RunEvent): void {
    if (event.seq <= this.#lastSeq) return
    this.#lastSeq = event.seq
    if (event.type === 'start') this.state.value = 'running'
    if (event.type === 'exit') {
      this.exit.value = event
      this.state.value = 'finished'
    }
    const output = outputOf(event)
    if (output === undefined) return
    this.#waiting.push(output)
    // A program may print thousands of lines a second; they are shown once per frame.
    this.#frame ||= requestAnimationFrame(() => this.#show())
  }

  #show(): void {
    this.#frame = 0
    this.outputs.value = merged(this.outputs.value, this.#waiting)
    this.#waiting = []
  }
}

function outputOf(event: RunEvent): Output | undefined {
  if (event.type === 'stdout' || event.type === 'stderr')
    return { kind: 'text', stream: event.type, text: event.data }
  if (event.type === 'result') return { kind: 'result', data: { ...event.data }, isMain: event.data.isMain }
  if (event.type === 'error') {
    const { name, message, traceback } = event
    return { kind: 'error', name, message, traceback }
  }
  if (event.type === 'input')
    return { kind: 'input', seq: event.seq, prompt: event.prompt, isHidden: event.hidden === true }
  return event.type === 'truncated' ? { kind: 'truncated', bytes: event.bytes } : undefined
}

/** Joins text of one stream, and plays back carriage returns as a terminal does: progress bars move. */
function merged(before: readonly Output[], more: readonly Output[]): Output[] {
  const outputs = [...before]
  for (const output of more) {
    const last = outputs.at(-1)
    if (output.kind === 'text' && last?.kind === 'text' && last.stream === output.stream)
      outputs[outputs.length - 1] = { ...last, text: returned(last.text + output.text) }
    else outputs.push(output.kind === 'text' ? { ...output, text: returned(output.text) } : output)
  }
  return outputs
}

function returned(text: string): string {
  const played = text.includes('\r')
    ? text
        .replaceAll('\r\n', '\n')
        .split('\n')
        // A return at the end moves the cursor, and nothing is overwritten yet.
        .map((line) => line.replace(/^[^\n]*\r(?!$)/, ''))
        .join('\n')
    : text
  return played.length > TEXT_MAX ? played.slice(-TEXT_MAX) : played
}
