/** More than a line of a terminal has. */
const KEPT_CHARACTERS = 1000

/** The text of the current line on the screen, which output has begun and not ended. */
export class OpenLine {
  text = ''

  add(output: string): void {
    const lineStart = output.lastIndexOf('\n') + 1
    const line = lineStart > 0 ? output.slice(lineStart) : this.text + output
    this.text = line.slice(-KEPT_CHARACTERS)
  }

  end(): void {
    this.text = ''
  }
}
