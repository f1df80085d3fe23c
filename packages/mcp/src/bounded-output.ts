import { OUTPUT_MAX_CHARACTERS } from './limits.ts'

/** The beginning and the end: the one says what it is, the other how it came out. */
export function boundedOutput(text: string): string {
  if (text.length <= OUTPUT_MAX_CHARACTERS) return text
  const half = OUTPUT_MAX_CHARACTERS / 2
  const lost = text.length - 2 * half
  const note = `… ${lost} characters left out: print less, or write to a file and read parts of it …`
  return `${wellFormed(text.slice(0, half))}\n${note}\n${wellFormed(text.slice(-half))}`
}

/** Half a character has no UTF-8 form, and some clients refuse the whole message. */
function wellFormed(text: string): string {
  return Buffer.from(text).toString()
}
