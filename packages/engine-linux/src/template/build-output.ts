import { HOOK_MARK } from './build-hooks.ts'
import { phaseOf } from './build-progress.ts'

/** Enough for the error of apt or a traceback, short enough to read. */
const LINES_MAX = 40
/** What mmdebstrap says about itself, and counters of dpkg. They would push out the reason of a failure. */
const NOISE = /^(?:[ID]: |\(Reading database|Get:\d+ |\s*$)/

/** The end of the output of the step that a build is in: of the failing command, when it fails. */
export class BuildOutput {
  #step = 'starting'
  #lines: string[] = []

  /** What the build is doing. */
  get step(): string {
    return this.#step
  }

  get lines(): readonly string[] {
    return this.#lines
  }

  add(line: string): void {
    const next = line.startsWith(HOOK_MARK) ? line.slice(HOOK_MARK.length) : phaseOf(line)?.doing
    if (next !== undefined) {
      this.#step = next
      this.#lines = []
    } else if (!NOISE.test(line)) {
      this.#lines.push(line)
      if (this.#lines.length > LINES_MAX) this.#lines.shift()
    }
  }
}
