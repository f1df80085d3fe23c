import { DormouseError } from '@dormouse/contracts'
import type { Instruction as Parsed } from 'dockerfile-ast'

/** What an instruction says, in the rules of Docker for text. */
export interface InstructionText {
  readonly keyword: string
  /** `--mount=type=cache` is `['mount', 'type=cache']`. */
  readonly flags: readonly (readonly [name: string, value: string])[]
  /** The rest of the line. Continued lines are one; lines between them that are empty or a comment are left out. */
  readonly line: string
  /** The lines behind it, which belong to its heredocs. */
  readonly documents: string
}

const FLAG = /^--(?<name>[a-z][a-z0-9-]*)(?:=(?<value>\S*))?(?:\s+|$)/i
const LEFT_OUT = /^\s*(?:#.*)?$/

/** The parser finds where an instruction begins and ends; it keeps comments, and joins lines of heredocs. */
export function readText(parsed: Parsed, escapeCharacter: string): InstructionText {
  const lines = parsed.getTextContent().slice(parsed.getInstruction().length).split(/\r?\n/)
  const continued = escapeCharacter === '`' ? /`[ \t]*$/ : /\\[ \t]*$/
  let line = ''
  let read = 0
  for (let isContinued = true; isContinued && read < lines.length; read += 1) {
    const next = lines[read] ?? ''
    if (read > 0 && LEFT_OUT.test(next)) continue
    isContinued = continued.test(next)
    line += next.replace(continued, '')
  }
  const flags: [string, string][] = []
  let rest = line.trim()
  for (let found = FLAG.exec(rest); found !== null; found = FLAG.exec(rest)) {
    flags.push([(found.groups?.['name'] ?? '').toLowerCase(), found.groups?.['value'] ?? ''])
    rest = rest.slice(found[0].length)
  }
  return { keyword: parsed.getKeyword(), flags, line: rest, documents: lines.slice(read).join('\n') }
}

/** Words as ENV and ARG have them: a space in quotes or behind a backslash belongs to the word. */
export function splitWords(line: string): string[] {
  return line.match(/(?:'[^']*'|"(?:[^"\\]|\\[\s\S])*"|\\[\s\S]|\S)+/g) ?? []
}

const REFERENCE = String.raw`\$(?:(?<plain>[A-Za-z_]\w*)|\{(?<name>[A-Za-z_]\w*)(?<mode>:?[-+?])?(?<word>(?:[^{}\\]|\\.|\$\{[^{}]*\})*)\})`
const IN_QUOTES = new RegExp(String.raw`\\(?<escaped>["$\\])|${REFERENCE}`, 'g')
const IN_WORD = new RegExp(
  String.raw`'(?<literal>[^']*)'|"(?<quoted>(?:[^"\\]|\\[\s\S])*)"|\\(?<escaped>[\s\S])|${REFERENCE}`,
  'g',
)

type Variables = Readonly<Record<string, string | undefined>>

/**
 * Reads a word as Docker does: `$name`, `${name}`, `${name:-default}` and `${name:+other}` are replaced, except between
 * single quotes and behind a backslash, and quotes disappear.
 */
export function expandWord(word: string, variables: Variables): string {
  return expand(word, IN_WORD, variables)
}

/** The word that `expandWord` reads as this text. */
export function asWord(text: string): string {
  return text.replaceAll(/[\\$'"]/g, '\\$&')
}

function expand(text: string, pattern: RegExp, variables: Variables): string {
  return text.replace(pattern, (_whole, ...rest) => {
    const groups = rest.at(-1) as Record<string, string | undefined>
    const asIs = groups['literal'] ?? groups['escaped']
    if (asIs !== undefined) return asIs
    const quoted = groups['quoted']
    return quoted === undefined ? readReference(groups, variables) : expand(quoted, IN_QUOTES, variables)
  })
}

function readReference(groups: Readonly<Record<string, string | undefined>>, variables: Variables): string {
  const name = groups['plain'] ?? groups['name'] ?? ''
  const given = Object.hasOwn(variables, name) ? variables[name] : undefined
  const { mode, word = '' } = groups
  // With a colon an empty value counts as none.
  const value = mode?.startsWith(':') && given === '' ? undefined : given
  switch (mode?.at(-1)) {
    case '-':
      return value ?? expandWord(word, variables)
    case '+':
      return value === undefined ? '' : expandWord(word, variables)
    case '?':
      if (value !== undefined) return value
      throw refused(`The variable ${name} is not set: ${expandWord(word, variables)}`)
    default:
      if (word === '') return given ?? ''
      throw refused(`The Dockerfile changes a variable in a way that is not supported: \${${name}${word}}.`)
  }
}

function refused(message: string): DormouseError {
  return new DormouseError('invalid_argument', message, { details: { field: 'dockerfile' } })
}
