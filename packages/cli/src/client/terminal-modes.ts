const ESCAPE = '\x1b'
// Built from text because the linter forbids control characters in patterns.
const SWITCHES = new RegExp(`${ESCAPE}\\[\\?(1049|1000|1002|1003|1006|2004|25)([hl])`, 'g')
/** Longer than any escape sequence that can be split between two pieces. */
const HELD_MAX = 16

/** Tracks the terminal modes that a program switches on, so that they can be reset when the user detaches. */
export class TerminalModes {
  readonly #on = new Map<string, boolean>()
  #held = ''

  observe(text: string): void {
    const all = this.#held + text
    for (const [, mode = '', to] of all.matchAll(SWITCHES)) this.#on.set(mode, to === 'h')
    this.#held = all.slice(-HELD_MAX)
  }

  /** The escape sequences that reset the terminal. */
  resetSequence(): string {
    const off = [...this.#on].map(([mode, isOn]) => {
      // The cursor is visible by default; all other modes are off.
      if (mode === '25') return isOn ? '' : '\x1b[?25h'
      return isOn ? `\x1b[?${mode}l` : ''
    })
    return `${off.join('')}\x1b[0m`
  }
}
