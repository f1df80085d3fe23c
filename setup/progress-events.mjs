const EVERY_MS = 1000

/**
 * Reports steps to programs: one JSON object per line when a step starts, progresses and ends. A counterpart of
 * ProgressLine.
 * @typedef {import('./progress-line.mjs').ProgressLine} ProgressLine
 * @implements {Pick<ProgressLine, 'start' | 'update' | 'finish' | 'inPlace' | 'note' | 'clear'>}
 */
export class ProgressEvents {
  /** @type {{ id: string, startedMs: number, toldMs: number } | undefined} */
  #step
  #write

  /** @param {{ write(text: string): unknown }} output */
  constructor(output) {
    this.#write = (/** @type {object} */ event) => output.write(`${JSON.stringify(event)}\n`)
  }

  /** @param {{ id: string, title: string }} step */
  start({ id, title }) {
    this.#step = { id, startedMs: Date.now(), toldMs: 0 }
    this.#write({ type: 'step', id, title, state: 'started' })
  }

  /** @param {{ percent?: number, doing?: string }} progress */
  update({ percent, doing }) {
    // Some steps report every line of a compiler.
    if (this.#step === undefined || Date.now() - this.#step.toldMs < EVERY_MS) return
    this.#step.toldMs = Date.now()
    this.#write({ type: 'progress', id: this.#step.id, percent, doing })
  }

  /** @param {'ok' | 'failed' | 'stopped'} outcome */
  finish(outcome) {
    if (this.#step === undefined) return
    const { id, startedMs } = this.#step
    this.#step = undefined
    this.#write({ type: 'step', id, state: outcome, durationMs: Date.now() - startedMs })
  }

  /** @param {{ id: string, title: string }} step */
  inPlace({ id, title }) {
    this.#write({ type: 'step', id, title, state: 'in_place' })
  }

  /** @param {string} text */
  note(text) {
    this.#write({ type: 'note', text })
  }

  clear() {
    this.#step = undefined
  }
}
