import type { Language } from '@dormouse/contracts'
import type { Attempt } from './task-rows.ts'

/** Of the sandbox, not of this server. */
const NODE_ENVIRONMENT = ['process', 'env'].join('.')
/** Linux gives programs no environment variable that is longer than 128 KiB. */
const EXPORTED_MAX_BYTES = 96 * 1024

export interface BoundCode {
  /** Runs first, in the same context. Its output is not part of the result. */
  readonly before: { readonly code: string; readonly language: Language } | undefined
  readonly code: string
}

/**
 * How code finds its input, and the numbers of its job, task and attempt in the environment. The input never becomes
 * code: each language reads it from a quoted text. R, which reads no JSON by itself, gets it as nested lists.
 */
export function bindInput(
  { code, language, variable }: { code: string; language: Language; variable: string },
  { jobId, index, attempts, input }: Pick<Attempt, 'jobId' | 'index' | 'attempts' | 'input'>,
): BoundCode {
  const environment = {
    DORMOUSE_JOB_ID: jobId as string,
    DORMOUSE_TASK_INDEX: String(index),
    DORMOUSE_TASK_ATTEMPT: String(attempts),
  }
  if (language === 'bash') return { before: undefined, code: bashCode(code, variable, input, environment) }
  if (language === 'r') return { before: { code: rBinding(variable, input, environment), language }, code }
  // JSON text, encoded as JSON again, is a string literal of Python and JavaScript.
  const value = JSON.stringify(input)
  const names = JSON.stringify(JSON.stringify(environment))
  if (language === 'python') {
    const read = (text: string) => `__import__('json').loads(${text})`
    const bind = `__import__('os').environ.update(${read(names)}); ${variable} = ${read(value)}`
    return { before: { code: bind, language }, code }
  }
  const bind = `Object.assign(${NODE_ENVIRONMENT}, JSON.parse(${names})); globalThis.${variable} = JSON.parse(${value}); undefined`
  return { before: { code: bind, language: 'javascript' }, code }
}

/** A run of bash keeps nothing, so the input is on the first line of the code, whose lines keep their numbers. */
function bashCode(
  code: string,
  variable: string,
  input: string,
  environment: Record<string, string>,
): string {
  const value: unknown = JSON.parse(input)
  const text = typeof value === 'string' ? value : input
  const names = Object.entries(environment).map(([name, given]) => `${name}=${quoted(given)}`)
  const isExported = Buffer.byteLength(text) <= EXPORTED_MAX_BYTES
  return `export ${names.join(' ')}; ${isExported ? 'export ' : ''}${variable}=${quoted(text)}; ${code}`
}

function rBinding(variable: string, input: string, environment: Record<string, string>): string {
  const names = Object.entries(environment).map(([name, given]) => `${name} = ${rText(given)}`)
  return `Sys.setenv(${names.join(', ')}); ${variable} <- ${rValue(JSON.parse(input))}`
}

function rValue(value: unknown): string {
  if (value === null) return 'NULL'
  if (typeof value === 'string') return rText(value)
  if (typeof value === 'boolean') return value ? 'TRUE' : 'FALSE'
  if (typeof value !== 'object') return String(value)
  const list = `list(${Object.values(value).map(rValue).join(', ')})`
  if (Array.isArray(value)) return list
  return `structure(${list}, names = as.character(c(${Object.keys(value).map(rText).join(', ')})))`
}

/** A literal of R, whose escapes are those of JSON. It knows no NUL and no half of a character. */
function rText(text: string): string {
  return JSON.stringify(text.replaceAll('\0', '').replaceAll(/\p{Surrogate}/gu, ''))
}

function quoted(text: string): string {
  return `'${text.replaceAll('\0', '').replaceAll("'", `'\\''`)}'`
}
