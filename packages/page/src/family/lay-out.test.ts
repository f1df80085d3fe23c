import { expect, test } from 'vitest'
import { type FamilyNode, layOut } from './lay-out.ts'

const node = (id: string, parentId?: string) =>
  ({ kind: 'sandbox', id, state: 'running', ...(parentId !== undefined && { parentId }) }) as FamilyNode
const places = (nodes: readonly FamilyNode[]) =>
  layOut(nodes).map(({ node: { id }, x, y, parent }) => [id, x, y, parent?.node.id])

test('a child is right of its parent, and siblings are below each other', () => {
  expect(
    places([node('root'), node('a', 'root'), node('b', 'root'), node('c', 'a'), node('d', 'a')]),
  ).toEqual([
    ['root', 0, 0, undefined],
    ['a', 1, 0, 'root'],
    ['c', 2, 0, 'a'],
    ['d', 2, 1, 'a'],
    ['b', 1, 2, 'root'],
  ])
})

test('a node whose parent is not shown begins a tree of its own', () => {
  expect(places([node('a', 'gone'), node('b')])).toEqual([
    ['a', 0, 0, undefined],
    ['b', 0, 1, undefined],
  ])
})
