import type { Language } from './language.ts'

const OPENS = '([{'
const CLOSES = ')]}'
/** Words of bash that open a block, and the word that closes it. */
const BLOCKS: Readonly<Record<string, string>> = { if: 'fi', do: 'done', case: 'esac' }

/**
 * Whether a prompt should run code of JavaScript, TypeScript, bash or R now. An open bracket, quote, comment or block needs
 * another line. Code with other mistakes counts as complete, so that the language reports them.
 */
export function isCompleteScript(code: string, language: Language): boolean {
  if (language === 'bash' && /(?:\\|\||&&)\s*$/.test(code)) return false
  const plain = withoutText(code, language)
  if (plain === undefined) return false
  const depth = [...plain].reduce(
    (open, one) => open + (OPENS.includes(one) ? 1 : 0) - (CLOSES.includes(one) ? 1 : 0),
    0,
  )
  // The pattern of a `case` closes a parenthesis that nothing opened.
  if (language !== 'bash') return depth <= 0
  return (
    [...plain].filter((one) => one === '{').length <= [...plain].filter((one) => one === '}').length &&
    !hasOpenBlock(plain)
  )
}

/** The code without strings and comments; undefined when one of them is open. */
function withoutText(code: string, language: Language): string | undefined {
  const isScript = language === 'javascript' || language === 'typescript'
  const comment = isScript ? /^\/\/[^\n]*/ : /^(?<=^|\s)#[^\n]*/
  let rest = code
  let plain = ''
  while (rest !== '') {
    const quote = rest[0] ?? ''
    const isComment = comment.test(rest) && (isScript || /(?:^|\s)$/.test(plain))
    if (isComment) rest = rest.replace(comment, '')
    else if (isScript && rest.startsWith('/*')) {
      const end = rest.indexOf('*/', 2)
      if (end < 0) return undefined
      rest = rest.slice(end + 2)
    } else if (quote === '"' || quote === "'" || quote === '`') {
      const end = endOfString(rest, { hasEscapes: quote !== "'" || language !== 'bash' })
      // A string of JavaScript ends with its line: V8 says so.
      if (end === undefined) return isScript && quote !== '`' ? plain : undefined
      rest = rest.slice(end + 1)
    } else {
      plain += quote
      rest = rest.slice(1)
    }
  }
  return plain
}

function endOfString(text: string, { hasEscapes }: { hasEscapes: boolean }): number | undefined {
  for (let at = 1; at < text.length; at += 1) {
    if (hasEscapes && text[at] === '\\') at += 1
    else if (text[at] === text[0]) return at
  }
  return undefined
}

function hasOpenBlock(plain: string): boolean {
  const words = plain.split(/[\s;&|()]+/)
  return Object.entries(BLOCKS).some(
    ([open, close]) =>
      words.filter((word) => word === open).length > words.filter((word) => word === close).length,
  )
}
