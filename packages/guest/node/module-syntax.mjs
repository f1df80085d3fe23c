import { parse } from './acorn.mjs'

/** What import() becomes: the console mode of V8 has no way to import. */
export const IMPORT = '__dormouse_import__'
const OPTIONS = /** @type {const} */ ({
  ecmaVersion: 'latest',
  sourceType: 'module',
  allowAwaitOutsideFunction: true,
  allowImportExportEverywhere: true,
})

/**
 * Rewrites `import` and `export`, which only modules may have, into code that a console can run. Lines stay where they
 * are. Returns code that does not parse as it is: V8 then says what is wrong with it.
 * @param {string} code
 */
export function rewriteModuleSyntax(code) {
  if (!/\b(?:import|export)\b/.test(code)) return code
  let program
  try {
    program = parse(code, OPTIONS)
  } catch {
    return code
  }
  /** @type {{ start: number, end: number, text: string }[]} */
  const edits = []
  visit(/** @type {any} */ (program), code, edits)
  let rewritten = code
  for (const { start, end, text } of edits.sort((a, b) => b.start - a.start))
    rewritten = rewritten.slice(0, start) + text + rewritten.slice(end)
  return rewritten
}

/**
 * An object literal at the beginning of a cell would be a block.
 * @param {string} code
 */
export function wrapObjectLiteral(code) {
  if (!/^\s*\{/.test(code) || /;\s*$/.test(code)) return code
  try {
    const wrapped = `(${code.trimEnd()}\n)`
    parse(wrapped, OPTIONS)
    return wrapped
  } catch {
    return code
  }
}

/**
 * @param {any} node
 * @param {string} code
 * @param {{ start: number, end: number, text: string }[]} edits
 */
function visit(node, code, edits) {
  if (node.type === 'ImportDeclaration') {
    edits.push({ start: node.start, end: node.end, text: importOf(node, code) })
    return
  }
  if (node.type === 'ImportExpression')
    edits.push({ start: node.start, end: node.start + 'import'.length, text: IMPORT })
  if (node.type === 'MetaProperty' && node.meta.name === 'import')
    edits.push({ start: node.start, end: node.end, text: `${IMPORT}.meta` })
  if (node.type === 'ExportNamedDeclaration' || node.type === 'ExportDefaultDeclaration')
    edits.push({ start: node.start, end: node.declaration?.start ?? node.end, text: '' })
  for (const value of Object.values(node))
    for (const child of Array.isArray(value) ? value : [value])
      if (typeof child?.type === 'string') visit(child, code, edits)
}

/**
 * @param {any} node
 * @param {string} code
 */
function importOf(node, code) {
  const attributes = (node.attributes ?? []).map((/** @type {any} */ one) => code.slice(one.start, one.end))
  const options = attributes.length === 0 ? '' : `, { with: { ${attributes.join(', ')} } }`
  const module = `await ${IMPORT}(${code.slice(node.source.start, node.source.end)}${options})`
  const lines = '\n'.repeat(code.slice(node.start, node.end).split('\n').length - 1)
  const named = node.specifiers.filter((/** @type {any} */ one) => one.type !== 'ImportNamespaceSpecifier')
  const all = node.specifiers.find((/** @type {any} */ one) => one.type === 'ImportNamespaceSpecifier')
  const names = named.map((/** @type {any} */ one) => `${importedName(one, code)}: ${one.local.name}`)
  const bindings = [
    ...(all === undefined ? [] : [`${all.local.name} = ${module}`]),
    ...(names.length === 0 ? [] : [`{ ${names.join(', ')} } = ${all?.local.name ?? module}`]),
  ]
  // The value of an import is undefined, so that it shows no result.
  return bindings.length === 0 ? `void (${module});${lines}` : `const ${bindings.join(', ')};${lines}`
}

/**
 * @param {any} specifier
 * @param {string} code
 */
function importedName({ type, imported }, code) {
  return type === 'ImportDefaultSpecifier' ? 'default' : code.slice(imported.start, imported.end)
}
