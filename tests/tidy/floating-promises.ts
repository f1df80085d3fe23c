import { dirname, relative } from 'node:path'
import { type Expression, type Node, type SourceFile, SyntaxKind } from 'typescript/unstable/ast'
import {
  isCallExpression,
  isExpressionStatement,
  isPropertyAccessExpression,
} from 'typescript/unstable/ast/is'
import { API, type Checker, type Type } from 'typescript/unstable/sync'

/**
 * Statements whose value is a promise that nothing awaits or handles, in all files of a project. Biome's rule of the
 * same name does not know the types of other packages; the compiler does.
 */
export function floatingPromises(configFile: string): string[] {
  const root = dirname(configFile)
  const api = new API({ cwd: root })
  try {
    const project = api.updateSnapshot({ openProjects: [configFile] }).getProject(configFile)
    if (project === undefined) throw new Error(`There is no project ${configFile}.`)
    const isPromise = promiseTest(project.checker)
    return project.program
      .getSourceFileNames()
      .filter((name) => !/\/(node_modules|dist)\/|\.d\.ts$/.test(name))
      .flatMap((name) => {
        const file = project.program.getSourceFile(name)
        if (file === undefined) return []
        const calls = statementsOf(file).filter((expression) => !isHandled(expression))
        const types = project.checker.getTypeAtLocation(calls)
        return calls
          .filter((_, index) => isPromise(types[index]))
          .map((call) => `${relative(root, name)}:${lineOf(file, call)}`)
      })
  } finally {
    api.close()
  }
}

/** Promises and unions with one. Not any object with `then`: a reply of Fastify has it. */
function promiseTest(checker: Checker): (type: Type | undefined) => boolean {
  const known = new Map<number, boolean>()
  const isPromise = (type: Type | undefined): boolean => {
    if (type === undefined) return false
    let is = known.get(type.id)
    if (is === undefined) {
      const has = (name: string) => checker.getPropertyOfType(type, name) !== undefined
      is = type.isUnionType() ? type.getTypes().some(isPromise) : has('then') && has('catch')
      known.set(type.id, is)
    }
    return is
  }
  return isPromise
}

function statementsOf(file: SourceFile): Expression[] {
  const found: Expression[] = []
  const visit = (node: Node): void => {
    if (isExpressionStatement(node)) found.push(node.expression)
    node.forEachChild(visit)
  }
  file.forEachChild(visit)
  return found
}

/** `await x`, `void x`, an assignment, `x.catch(…)`, `x.then(…, …)`, or one of the last two with `finally(…)` behind. */
function isHandled(expression: Expression): boolean {
  if ([SyntaxKind.AwaitExpression, SyntaxKind.VoidExpression].includes(expression.kind)) return true
  if (expression.kind === SyntaxKind.BinaryExpression) return true
  if (!isCallExpression(expression) || !isPropertyAccessExpression(expression.expression)) return false
  const method = expression.expression.name.text
  if (method === 'finally') return isHandled(expression.expression.expression)
  return method === 'catch' || (method === 'then' && expression.arguments.length === 2)
}

function lineOf({ text }: SourceFile, { end }: Node): number {
  return text.slice(0, end).split('\n').length
}
