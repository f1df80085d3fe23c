import { OUTPUT_MAX_CHARACTERS } from './limits.ts'

/** Keeps the start and the end of long output. */
export function boundedOutput(text: string): string {
  if (text.length <= OUTPUT_MAX_CHARACTERS) return text
  const half = OUTPUT_MAX_CHARACTERS / 2
  const lost = text.length - 2 * half
  const note = `… ${lost} characters left out: print less, or write to a file and read parts of it …`
  return `${wellFormed(text.slice(0, half))}\n${note}\n${wellFormed(text.slice(-half))}`
}

/** Replaces half of a surrogate pair: it has no UTF-8 form, and some clients refuse the whole message. */
function wellFormed(text: string): string {
  return Buffer.from(text).toString()
}
