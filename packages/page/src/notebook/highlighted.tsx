const KEYWORDS =
  'False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield|do|done|fi|then|echo|export|function|const|let|var|new|typeof|await|of'
const TOKEN = new RegExp(
  [
    '(?<comment>#[^\\n]*)',
    '(?<string>[rbfu]{0,2}(?:"""[^]*?"""|\'\'\'[^]*?\'\'\'|"(?:\\\\.|[^"\\\\\\n])*"|\'(?:\\\\.|[^\'\\\\\\n])*\'))',
    '(?<number>\\b\\d[\\w.]*)',
    `(?<keyword>\\b(?:${KEYWORDS})\\b)`,
    '(?<call>\\b[A-Za-z_]\\w*(?=\\())',
  ].join('|'),
  'g',
)
/** Longer code is shown without colours. */
const COLOURED_MAX = 20_000

/** Code with colours, without the editor: most cells are only read. */
export function Highlighted({ code }: { code: string; language: string }) {
  const text = code.replace(/\s+$/, '')
  return <pre class="source">{text.length > COLOURED_MAX ? text : tokens(text)}</pre>
}

function tokens(text: string) {
  const parts = []
  let at = 0
  for (const match of text.matchAll(TOKEN)) {
    if (match.index > at) parts.push(text.slice(at, match.index))
    const kind = Object.entries(match.groups ?? {}).find(([, value]) => value !== undefined)?.[0]
    parts.push(<span class={`t-${kind}`}>{match[0]}</span>)
    at = match.index + match[0].length
  }
  parts.push(text.slice(at))
  return parts
}
