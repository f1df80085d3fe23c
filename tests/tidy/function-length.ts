import { execFileSync } from 'node:child_process'
import { parseAst } from 'rolldown/parseAst'
import type { SourceFile } from './rules.ts'

const MAX_LINES = 60

/** A list of tests: each test counts by itself. */
const SUITE = /^describe\b/

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [field: string]: unknown
}

export function longFunctions({ path, text }: SourceFile): string[] {
  const lines = text.split('\n')
  if (lines.length <= MAX_LINES) return []
  if (/\.(tsx?|mjs)$/.test(path)) return longScriptFunctions({ path, text })
  return /\.[ch]$/.test(path) ? longCFunctions(path, lines) : []
}

function languageOf(path: string): 'ts' | 'tsx' | 'js' {
  if (path.endsWith('.tsx')) return 'tsx'
  return path.endsWith('.ts') ? 'ts' : 'js'
}

function longScriptFunctions({ path, text }: SourceFile): string[] {
  const program = parseAst(text, { lang: languageOf(path) }) as unknown as Node
  const found: string[] = []
  const linesOf = ({ start, end }: Node) => text.slice(start, end).split('\n').length
  /** Returns how many lines suites take up in the node. */
  const visit = (node: Node, isBodyOfSuite: boolean): number => {
    const isSuite = node.type === 'CallExpression' && SUITE.test(text.slice(node.start, node.end))
    const inSuites = childrenOf(node).reduce((sum, child) => sum + visit(child, isSuite), 0)
    if (isSuite) return linesOf(node)
    const lines = isFunction(node) && !isBodyOfSuite ? linesOf(node['body'] as Node) - inSuites : 0
    if (lines > MAX_LINES)
      found.push(`${path}:${text.slice(0, node.start).split('\n').length}: ${lines} lines`)
    return inSuites
  }
  visit(program, false)
  return found
}

function isFunction({ type, body }: Node): boolean {
  return /Function/.test(type) && body !== null && body !== undefined
}

function childrenOf(node: Node): Node[] {
  return Object.values(node)
    .flat()
    .filter((value): value is Node => typeof value === 'object' && value !== null && 'type' in value)
}

/** Relies on the format of our C files: the last line of a function is a brace in the first column. */
function longCFunctions(path: string, lines: readonly string[]): string[] {
  let begin = 0
  return lines.flatMap((line, index) => {
    if (/^\w.*\)\s*\{$|^\{$/.test(line)) begin = index
    const length = index - begin + 1
    return line === '}' && length > MAX_LINES ? [`${path}:${begin + 1}: ${length} lines`] : []
  })
}

const FIND_IN_PYTHON = `
import ast, json, sys
found = []
for file in json.load(sys.stdin):
    for node in ast.walk(ast.parse(file["text"])):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = node.end_lineno - node.body[0].lineno + 1
            if lines > ${MAX_LINES}:
                found.append(f"{file['path']}:{node.lineno}: {lines} lines")
print(json.dumps(found))`

export function longPythonFunctions(files: readonly SourceFile[]): string[] {
  const input = JSON.stringify(files.filter(({ path }) => path.endsWith('.py')))
  return JSON.parse(execFileSync('python3', ['-c', FIND_IN_PYTHON], { input, encoding: 'utf8' }))
}
