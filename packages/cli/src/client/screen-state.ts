const ESCAPE = '\x1b'
// Built from text: a control character in a pattern is taken for a slip.
const SWITCHES = new RegExp(`${ESCAPE}\\[\\?(1049|1000|1002|1003|1006|2004|25)([hl])`, 'g')
/** Only the end of an escape sequence can be missing from a piece. */
const HELD_MAX = 16

/** Remembers what a program has switched on in the terminal, to switch it off when it is left running. */
export class ScreenState {
  readonly #on = new Map<string, boolean>()
  #held = ''

  see(text: string): void {
    const all = this.#held + text
    for (const [, mode = '', to] of all.matchAll(SWITCHES)) this.#on.set(mode, to === 'h')
    this.#held = all.slice(-HELD_MAX)
  }

  /** What brings the terminal back. */
  restore(): string {
    const off = [...this.#on].map(([mode, isOn]) => {
      // The cursor alone is on by itself.
      if (mode === '25') return isOn ? '' : '\x1b[?25h'
      return isOn ? `\x1b[?${mode}l` : ''
    })
    return `${off.join('')}\x1b[0m`
  }
}
