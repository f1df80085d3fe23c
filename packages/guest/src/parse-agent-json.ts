/** More than Python's encoder produces, and far below where JSON.stringify runs out of stack. */
const DEPTH_MAX = 1_000

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c]
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]
const [LETTER_U, LETTER_D, CAPITAL_D, DIGIT_8] = [0x75, 0x64, 0x44, 0x38]

/**
 * Parses JSON of an agent, which may be hostile. JSON can take a hundred times its size in memory, hold invalid
 * Unicode, or nest too deeply to be written again. All of that is refused before parsing.
 */
export function parseAgentJson(payload: Buffer, { valuesMax }: { readonly valuesMax: number }): unknown {
  // A level takes two bytes and a value at least one. Only an escape can make half a character.
  const isShort = payload.byteLength <= 2 * Math.min(DEPTH_MAX, valuesMax)
  if (!isShort || payload.includes('\\ud') || payload.includes('\\uD')) checkShape(payload, valuesMax)
  return JSON.parse(payload.toString('utf8'))
}

function checkShape(bytes: Buffer, valuesMax: number): void {
  let depth = 0
  let values = 1
  for (let at = 0; at < bytes.byteLength; at++) {
    const byte = bytes[at]
    if (byte === QUOTE) at = endOfString(bytes, at + 1)
    else if (byte === COMMA) values++
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      values++
      if (++depth > DEPTH_MAX) throw new Error(`JSON is nested more than ${DEPTH_MAX} levels deep`)
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth--
    if (values > valuesMax) throw new Error(`JSON has more than ${valuesMax} values`)
  }
}

/**
 * The end of a string. Searches for quotes and backslashes natively: a loop over every byte of a run's output would
 * block the event loop. Agents escape control characters only, so an escaped surrogate, paired or not, is refused.
 */
function endOfString(bytes: Buffer, from: number): number {
  let quote = bytes.indexOf(QUOTE, from)
  for (let at = from; quote !== -1; ) {
    const slash = bytes.subarray(at, quote).indexOf(BACKSLASH)
    if (slash === -1) return quote
    at += slash + 1
    const [letter, first = 0, second = 0] = [bytes[at], bytes[at + 1], bytes[at + 2]]
    if (letter === LETTER_U && (first === LETTER_D || first === CAPITAL_D) && second >= DIGIT_8)
      throw new Error('JSON escapes half a character')
    at++
    if (at > quote) quote = bytes.indexOf(QUOTE, at)
  }
  return bytes.byteLength
}
