import { type Expression, type Node, type SourceFile, SyntaxKind } from 'typescript/unstable/ast'
import {
  isCallExpression,
  isExpressionStatement,
  isPropertyAccessExpression,
} from 'typescript/unstable/ast/is'

/** Statements whose value nothing awaits or handles. */
export function unhandledStatements(file: SourceFile): Expression[] {
  const found: Expression[] = []
  const visit = (node: Node): void => {
    if (isExpressionStatement(node) && !isHandled(node.expression)) found.push(node.expression)
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
