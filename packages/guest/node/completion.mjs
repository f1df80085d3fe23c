import { COMPLETION_CHARS, COMPLETION_MS, COMPLETIONS } from './limits.mjs'

const NAME = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*$/u
/** What may stand before the dot: names and dots only, so that looking it up calls nothing. */
const PATH = /((?:[\p{ID_Start}$_][\p{ID_Continue}$]*\.)+)([\p{ID_Start}$_][\p{ID_Continue}$]*)?$/u

/**
 * Names that fit the end of the code: properties after a dot, else variables. Executes nothing that changes anything.
 * @param {import('./evaluator.mjs').Evaluator} evaluator
 * @param {string} code
 */
export async function complete(evaluator, code) {
  const path = PATH.exec(code)
  const replaces = path === null ? (NAME.exec(code)?.[0] ?? '') : (path[2] ?? '')
  const names = path === null ? await variableNames(evaluator) : await propertyNames(evaluator, path[1] ?? '')
  const matches = [...new Set(names)]
    .filter((name) => name.startsWith(replaces) && name.length <= COMPLETION_CHARS && NAME.test(name))
    .sort()
  if (path === null && replaces === '') return { matches: [], replaces: '', more: false }
  return { matches: matches.slice(0, COMPLETIONS), replaces, more: matches.length > COMPLETIONS }
}

/** @param {import('./evaluator.mjs').Evaluator} evaluator */
async function variableNames(evaluator) {
  return [...(await evaluator.declaredNames()), ...allNames(globalThis)].filter(
    (name) => !name.startsWith('__dormouse_'),
  )
}

/**
 * @param {import('./evaluator.mjs').Evaluator} evaluator
 * @param {string} path ends with a dot
 */
async function propertyNames(evaluator, path) {
  const found = await evaluator.peek(path.slice(0, -1), COMPLETION_MS)
  return found === undefined ? [] : allNames(found.value)
}

/** @param {unknown} value */
function allNames(value) {
  const names = []
  if (value === undefined || value === null) return []
  try {
    for (let one = Object(value); one !== null; one = Object.getPrototypeOf(one))
      names.push(...Object.getOwnPropertyNames(one))
  } catch {
    // A proxy of user code may throw.
  }
  return names
}
