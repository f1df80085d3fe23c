import type { SourceFile } from './rules.ts'

const MAX_COLUMNS = 120

/** Comments and prose. Code is formatted by biome, and tables and code blocks may be as wide as they need. */
export function longLines({ path, text }: SourceFile): string[] {
  const lines = path.endsWith('.md') ? proseOf(text) : text.split('\n').map(commentIn(path))
  return lines.flatMap((line, index) =>
    isLong(line) ? [`${path}:${index + 1}: ${line.length} columns`] : [],
  )
}

/** A word that begins within the limit may end behind it: links cannot be broken. */
function isLong(line: string): boolean {
  return line.length > MAX_COLUMNS && line.trimEnd().lastIndexOf(' ') >= MAX_COLUMNS
}

/** The lines of a document; empty where they are a table or code. */
function proseOf(text: string): string[] {
  let fence = ''
  return text.split('\n').map((line) => {
    const mark = /^\s*(`{3,}|~{3,})/.exec(line)?.[1] ?? ''
    if (fence === '' && mark !== '') fence = mark
    else if (fence !== '') {
      if (mark.startsWith(fence)) fence = ''
    } else if (!/^\s*\|/.test(line)) return line
    return ''
  })
}

/** The line, if it is or ends in a comment. */
function commentIn(path: string): (line: string) => string {
  const comment = COMMENTS.find(([name]) => name.test(path))?.[1]
  return (line) => (comment?.test(line) ? line : '')
}

const COMMENTS: readonly (readonly [RegExp, RegExp])[] = [
  [/\.(tsx?|css|mjs|c|h)$/, /(^|\s)\/[/*]+ |^\s*\* /],
  // Docstrings are comments too, and a long line of Python has no other excuse.
  [/\.py$/, /./],
  [/\.sh$|^dormouse$|Makefile$|^\.ci\//, /(^|\s)# /],
]
