const BAR_CELLS = 24
const REDRAW_MS = 100
const CLEAR_LINE = '\r\u001b[K'

/**
 * One line per step: a bar that moves on a terminal, a start and a finish line elsewhere.
 * @typedef {{ isTTY?: boolean, columns?: number, write(text: string): unknown }} Output
 */
export class ProgressLine {
  /** @type {{ title: string, startedMs: number, percent: number | undefined, doing: string } | undefined} */
  #step
  /** @type {NodeJS.Timeout | undefined} */
  #timer
  #output

  /** @param {Output} output */
  constructor(output) {
    this.#output = output
  }

  /** @param {{ title: string }} step */
  start({ title }) {
    this.#step = { title, startedMs: Date.now(), percent: undefined, doing: '' }
    if (this.#output.isTTY !== true) {
      this.#output.write(`.. ${title}\n`)
      return
    }
    this.#timer = setInterval(() => this.#draw(), REDRAW_MS)
    this.#draw()
  }

  /** @param {{ percent?: number, doing?: string }} progress */
  update({ percent, doing }) {
    if (this.#step === undefined) return
    if (percent !== undefined) this.#step.percent = percent
    if (doing !== undefined) this.#step.doing = doing
  }

  /** @param {'ok' | 'failed' | 'stopped'} outcome */
  finish(outcome) {
    if (this.#step === undefined) return
    const { title, startedMs } = this.#step
    this.clear()
    this.#output.write(`${outcome} ${title} (${seconds(Date.now() - startedMs)})\n`)
  }

  /** @param {{ title: string }} step */
  inPlace({ title }) {
    this.#output.write(`ok ${title} (in place)\n`)
  }

  /** @param {string} text */
  note(text) {
    if (this.#output.isTTY === true) this.#output.write(CLEAR_LINE)
    this.#output.write(`${text}\n`)
  }

  /** Removes the bar from the terminal. */
  clear() {
    clearInterval(this.#timer)
    this.#step = undefined
    if (this.#output.isTTY === true) this.#output.write(CLEAR_LINE)
  }

  #draw() {
    if (this.#step === undefined) return
    const { title, startedMs, percent, doing } = this.#step
    const filled = Math.round(((percent ?? 0) / 100) * BAR_CELLS)
    const bar = `[${'#'.repeat(filled)}${'.'.repeat(BAR_CELLS - filled)}]`
    const share = percent === undefined ? '  ..' : `${String(Math.floor(percent)).padStart(3)}%`
    const line = `.. ${title} ${bar} ${share} ${seconds(Date.now() - startedMs)} ${doing}`
    // A line that wraps cannot be redrawn in place. Some terminals report a width of 0.
    this.#output.write(CLEAR_LINE + line.slice(0, (this.#output.columns || 80) - 1))
  }
}

/** @param {number} ms */
function seconds(ms) {
  return ms < 60_000
    ? `${(ms / 1000).toFixed(1)} s`
    : `${Math.floor(ms / 60_000)} min ${Math.floor(ms / 1000) % 60} s`
}
