import type { ResultData } from 'dormouse'
import { outputCollector } from './bounded-output.ts'
import type { ToolRunEvent } from './tool-run.ts'

/** Displayed data that is kept. Far more than an answer shows. */
const RESULTS_MAX = 100

type Exit = Extract<ToolRunEvent, { type: 'exit' }>

/** What a run has written so far, collected from its events. */
export class RunOutput {
  readonly stdout = outputCollector()
  readonly stderr = outputCollector()
  readonly results: ResultData[] = []
  /** The value of the last expression. */
  value: string | undefined
  error: { name: string; message: string; traceback: string } | undefined
  /** Why the earlier variables are lost. */
  contextRestarted: string | undefined
  exit: Exit | undefined
  lastEvent: number

  constructor(after: number) {
    this.lastEvent = after
  }

  add(event: ToolRunEvent): void {
    if (event.seq <= this.lastEvent) return
    this.lastEvent = event.seq
    if (event.type === 'stdout' || event.type === 'stderr') this[event.type].add(event.data)
    else if (event.type === 'truncated') this.stdout.lose(event.bytes)
    else if (event.type === 'start' && 'runId' in event) this.contextRestarted = event.contextRestarted
    else if (event.type === 'result') this.#addResult(event)
    else if (event.type === 'error') {
      const { name, message, traceback } = event
      this.error = { name, message, traceback }
    } else if (event.type === 'exit') this.#end(event)
  }

  #addResult({ data, main }: Extract<ToolRunEvent, { type: 'result' }>): void {
    if (this.results.length < RESULTS_MAX) this.results.push(data)
    const text = data['text/plain']
    if (main === true && typeof text === 'string') this.value = text
  }

  #end(event: Exit): void {
    this.exit = event
    if ('contextRestarted' in event && event.contextRestarted === true)
      this.contextRestarted = this.error?.message ?? 'The kernel was replaced; its variables are gone.'
  }
}
