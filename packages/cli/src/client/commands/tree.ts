import type { Sandbox } from 'dormouse'
import { formatBytes } from '../../format/amounts.ts'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'

type Family = Awaited<ReturnType<Sandbox['tree']>>
type Node = Family['nodes'][number]

/** Shows all forks and snapshots that share an ancestor with a sandbox. */
export async function tree(call: Call, ref: string): Promise<void> {
  const sandbox = await call.sandbox(ref)
  const family = await sandbox.tree({ signal: call.signal })
  const known = new Set(family.nodes.map(({ id }) => id))
  const rows: string[][] = []
  const visit = (node: Node, depth: number): void => {
    const name = node.name === undefined ? node.id : `${node.name} (${node.id})`
    rows.push([`${'  '.repeat(depth)}${node.id === sandbox.id ? '* ' : ''}${name}`, ...numbersOf(node)])
    for (const child of family.nodes) if (child.parentId === node.id) visit(child, depth + 1)
  }
  for (const node of family.nodes)
    if (node.parentId === undefined || !known.has(node.parentId)) visit(node, 0)
  call.printResult(family, formatTable([['FAMILY', 'STATE', 'OWN', 'SHARED'], ...rows]))
  if (family.more) call.note('The family is larger than this.')
}

function numbersOf(node: Node): string[] {
  if (node.kind === 'snapshot') return ['snapshot', formatBytes(node.memoryBytes), '']
  const { state, tier, memory } = node
  const size = (bytes: number | undefined) => (bytes === undefined ? '' : formatBytes(bytes))
  return [
    tier === undefined ? state : `${state} (${tier})`,
    size(memory?.privateBytes),
    size(memory?.sharedBytes),
  ]
}
