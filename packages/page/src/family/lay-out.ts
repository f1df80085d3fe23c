import type { Sandbox } from 'dormouse'

export type FamilyNode = Awaited<ReturnType<Sandbox['tree']>>['nodes'][number]

export interface Placed {
  readonly node: FamilyNode
  /** Columns and rows, from 0. */
  readonly x: number
  readonly y: number
  readonly parent: Placed | undefined
}

/** Places each node right of its parent, and below its elder siblings. */
export function layOut(nodes: readonly FamilyNode[]): Placed[] {
  const children = new Map<string | undefined, FamilyNode[]>()
  const known = new Set(nodes.map(({ id }) => id))
  for (const node of nodes) {
    const parent = node.parentId !== undefined && known.has(node.parentId) ? node.parentId : undefined
    children.set(parent, [...(children.get(parent) ?? []), node])
  }
  const placed: Placed[] = []
  let row = 0
  const place = (node: FamilyNode, x: number, parent: Placed | undefined): void => {
    const own = { node, x, y: row, parent }
    placed.push(own)
    const below = children.get(node.id) ?? []
    below.forEach((child, index) => {
      if (index > 0) row += 1
      place(child, x + 1, own)
    })
  }
  for (const root of children.get(undefined) ?? []) {
    place(root, 0, undefined)
    row += 1
  }
  return placed
}
