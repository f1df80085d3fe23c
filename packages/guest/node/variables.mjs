import { types } from 'node:util'
import { PEEK_MS, VARIABLE_NAME_CHARS, VARIABLES, VARIABLES_MS } from './limits.mjs'
import { describe } from './safe-text.mjs'

/** Names of globalThis that exist before any cell. @type {Set<string>} */
const OWN_NAMES = new Set(Object.getOwnPropertyNames(globalThis))

/**
 * The variables of the cells: name, type, size and a short preview of each. Executes no user code: getters and proxies
 * are not asked.
 * @param {import('./evaluator.mjs').Evaluator} evaluator
 */
export async function listVariables(evaluator) {
  const before = process.cpuUsage()
  const usedMs = () => {
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1000
  }
  const names = await variableNames(evaluator)
  /** @type {Record<string, unknown>[]} */
  const variables = []
  for (const name of names.slice(-VARIABLES)) {
    const found = await readVariable(evaluator, name)
    if (found !== undefined) variables.push({ name, ...describe(found.value) })
    if (usedMs() > VARIABLES_MS) break
  }
  return { variables, more: names.length > variables.length }
}

/**
 * The value of a variable; undefined when reading it would run user code, or there is none.
 * @param {import('./evaluator.mjs').Evaluator} evaluator
 * @param {string} name
 * @returns {Promise<{ value: unknown } | undefined>}
 */
export async function readVariable(evaluator, name) {
  const property = Object.getOwnPropertyDescriptor(globalThis, name)
  if (property !== undefined) return 'value' in property ? { value: property.value } : undefined
  return evaluator.peek(name, PEEK_MS)
}

/** @param {import('./evaluator.mjs').Evaluator} evaluator */
export async function variableNames(evaluator) {
  const added = Object.getOwnPropertyNames(globalThis).filter((name) => !OWN_NAMES.has(name))
  const names = [...new Set([...added, ...(await evaluator.declaredNames())])]
  return names.filter((name) => IDENTIFIER.test(name) && name.length <= VARIABLE_NAME_CHARS && isShown(name))
}

const IDENTIFIER = /^[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*$/u

/** @param {string} name */
function isShown(name) {
  if (name.startsWith('_') || name === 'dormouse') return false
  const value = Object.getOwnPropertyDescriptor(globalThis, name)?.value
  return !types.isModuleNamespaceObject(value)
}
