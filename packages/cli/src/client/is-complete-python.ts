const CLOSES: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' }

/**
 * Whether Python's own prompt would run `code` now. An open bracket, an open triple quote or a final backslash needs
 * another line; a block needs an empty line. Code with other mistakes counts as complete, so that Python reports
 * them.
 */
export function isCompletePython(code: string): boolean {
  const lines = code.split('\n')
  if (code.startsWith('%%')) return lines.length > 1 && lines.at(-1) === ''
  const { isOpen, hasBlock } = scan(code)
  if (isOpen) return false
  return !hasBlock || lines.at(-1)?.trim() === ''
}

/** Scans strings, comments and brackets. */
function scan(code: string): { isOpen: boolean; hasBlock: boolean } {
  const brackets: string[] = []
  let hasBlock = false
  /** The last character of the line that is neither a space nor in a comment. */
  let last = ''
  let isLineStart = true
  for (let at = 0; at < code.length; at++) {
    const character = code[at] ?? ''
    if (character === '#') {
      while (at + 1 < code.length && code[at + 1] !== '\n') at++
    } else if (character === '"' || character === "'") {
      const end = endOfString(code, at)
      if (end === undefined) return { isOpen: true, hasBlock }
      at = end
      last = character
    } else if (character === '\\' && (at + 1 === code.length || code[at + 1] === '\n')) {
      if (at + 1 === code.length) return { isOpen: true, hasBlock }
      at++
    } else if (character === '\n') {
      if (brackets.length > 0) continue
      hasBlock ||= last === ':'
      last = ''
      isLineStart = true
      continue
    } else if (CLOSES[character] !== undefined) {
      brackets.push(CLOSES[character])
      last = character
    } else if (/[)\]}]/.test(character)) {
      // Another line cannot repair a bracket that closes nothing.
      if (brackets.pop() !== character) return { isOpen: false, hasBlock: false }
      last = character
    } else if (!/\s/.test(character)) {
      if (isLineStart && character === '@') hasBlock = true
      last = character
    }
    if (!/\s/.test(character)) isLineStart = false
  }
  return { isOpen: brackets.length > 0, hasBlock: hasBlock || last === ':' }
}

/** The end of the string at `at`; undefined when a triple quote is still open. Other strings end with their line. */
function endOfString(code: string, at: number): number | undefined {
  const quote = code[at] ?? ''
  const isTriple = code.startsWith(quote.repeat(3), at)
  const mark = isTriple ? quote.repeat(3) : quote
  for (let end = at + mark.length; end < code.length; end++) {
    if (code[end] === '\\') end++
    else if (code.startsWith(mark, end)) return end + mark.length - 1
    else if (!isTriple && code[end] === '\n') return end - 1
  }
  return isTriple ? undefined : code.length - 1
}
