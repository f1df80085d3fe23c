import * as nodeModule from 'node:module'

const TOO_OLD =
  'this Node.js cannot read TypeScript: it needs Node.js 22.13 or later, or the package `typescript` 5'

/**
 * Removes types, with Node's own parser where this Node has it, else with the package `typescript` of the sandbox.
 * Lines stay where they are, except for `enum`, `namespace` and parameter properties, which are code to generate.
 * @param {string} code
 * @returns {string}
 */
export function removeTypes(code) {
  const strip = /** @type {any} */ (nodeModule).stripTypeScriptTypes
  if (strip === undefined) return transpile(code)
  try {
    return strip(code, { mode: 'strip' })
  } catch (error) {
    if (/** @type {any} */ (error).code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw error
    return strip(code, { mode: 'transform' })
  }
}

/** @param {string} code */
function transpile(code) {
  const typescript = findTypescript()
  // Version 7 and later are programs without functions to call.
  if (typescript?.transpileModule === undefined) throw new Error(TOO_OLD)
  const { ESNext } = typescript.ScriptTarget
  const compilerOptions = { target: ESNext, module: typescript.ModuleKind.ESNext, verbatimModuleSyntax: true }
  return typescript.transpileModule(code, { compilerOptions }).outputText
}

/** @returns {any} */
function findTypescript() {
  try {
    return /** @type {any} */ (globalThis).require('typescript')
  } catch {
    return undefined
  }
}
