import { type Expression, type Node, NodeFlags, type SourceFile, SyntaxKind } from 'typescript/unstable/ast'
import {
  isBlock,
  isFunctionLikeDeclaration,
  isReturnStatement,
  isTryStatement,
  isVariableStatement,
} from 'typescript/unstable/ast/is'

/**
 * What is returned without `await` where something happens when the function returns: `using` disposes of its object,
 * `finally` runs, and `catch` does not see a failure. If it is a promise, all of that is too early.
 */
export function earlyReturns(file: SourceFile): Expression[] {
  const found: Expression[] = []
  const visit = (node: Node, isGuarded: boolean): void => {
    if (isReturnStatement(node)) {
      const { expression } = node
      if (isGuarded && expression !== undefined && expression.kind !== SyntaxKind.AwaitExpression)
        found.push(expression)
    }
    if (isTryStatement(node)) {
      visit(node.tryBlock, true)
      if (node.catchClause !== undefined)
        visit(node.catchClause, isGuarded || node.finallyBlock !== undefined)
      if (node.finallyBlock !== undefined) visit(node.finallyBlock, isGuarded)
      return
    }
    const startsAnew = isFunctionLikeDeclaration(node)
    let isGuardedBelow = isGuarded && !startsAnew
    node.forEachChild((child) => {
      if (isBlock(node) && isUsing(child)) isGuardedBelow = true
      visit(child, isGuardedBelow)
    })
  }
  file.forEachChild((child) => visit(child, false))
  return found
}

/** `using` and `await using`, whose flags are those of `let` and `const` together with one more. */
function isUsing(node: Node): boolean {
  return isVariableStatement(node) && (node.declarationList.flags & NodeFlags.Using) !== 0
}
