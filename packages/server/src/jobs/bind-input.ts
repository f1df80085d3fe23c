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
 * code: each language reads it from a quoted text.
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
  // JSON text, encoded as JSON again, is a string literal of Python and JavaScript.
  const value = JSON.stringify(input)
  const names = JSON.stringify(JSON.stringify(environment))
  switch (language) {
    case 'bash':
      return { before: undefined, code: bashCode(code, variable, input, environment) }
    case 'r':
      return { before: { code: rCode(variable, input, environment), language }, code }
    case 'python':
      return { before: { code: pythonCode(variable, value, names), language }, code }
    case 'javascript':
    case 'typescript':
      return { before: { code: javaScriptCode(variable, value, names), language: 'javascript' }, code }
  }
}

function pythonCode(variable: string, value: string, names: string): string {
  const read = (text: string) => `__import__('json').loads(${text})`
  return `__import__('os').environ.update(${read(names)}); ${variable} = ${read(value)}`
}

function javaScriptCode(variable: string, value: string, names: string): string {
  const environment = `Object.assign(${NODE_ENVIRONMENT}, JSON.parse(${names}))`
  return `${environment}; globalThis.${variable} = JSON.parse(${value}); undefined`
}

/** Base R reads no JSON, so the input is written as R: objects are named lists, arrays of scalars of one type vectors. */
function rCode(variable: string, input: string, environment: Record<string, string>): string {
  const names = Object.entries(environment).map(([name, given]) => `${name} = ${rText(given)}`)
  const bind = `assign(${rText(variable)}, ${rValue(JSON.parse(input))}, globalenv())`
  return `invisible({ Sys.setenv(${names.join(', ')}); ${bind} })`
}

function rValue(value: unknown): string {
  if (value === null) return 'NULL'
  if (typeof value === 'string') return rText(value)
  if (typeof value === 'boolean') return value ? 'TRUE' : 'FALSE'
  if (typeof value !== 'object') return String(value)
  if (!Array.isArray(value)) {
    const values = Object.values(value)
    return `stats::setNames(${rList('list', values)}, ${rList('c', Object.keys(value))})`
  }
  const types = new Set(value.map((item) => (item === null ? 'object' : typeof item)))
  return rList(types.size === 1 && !types.has('object') ? 'c' : 'list', value)
}

function rList(kind: 'c' | 'list', values: readonly unknown[]): string {
  return values.length === 0 && kind === 'c' ? 'character()' : `${kind}(${values.map(rValue).join(', ')})`
}

/** Escapes of JSON are those of R, except that no text of R has a NUL or half of a character. */
function rText(text: string): string {
  return JSON.stringify(text.replaceAll('\0', '').replaceAll(/\p{Surrogate}/gu, '\ufffd'))
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

function quoted(text: string): string {
  return `'${text.replaceAll('\0', '').replaceAll("'", `'\\''`)}'`
}
