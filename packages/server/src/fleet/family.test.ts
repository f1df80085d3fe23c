import type { SandboxId } from '@dormouse/contracts'
import { expect, test } from 'vitest'
import { type FamilyDependencies, familyOf } from './family.ts'

const id = (letter: string) => `sb-${letter.repeat(16)}` as SandboxId

/** `parents` has every fork; those in `alive` exist, with their owners. */
function family(parents: Record<string, string>, alive: Record<string, string>): FamilyDependencies {
  const all = Object.entries(alive).map(([letter, owner]) => ({
    id: id(letter),
    isDeleted: false,
    burrow: undefined,
    row: {
      ...{ owner, state: 'standby', tier: 'stored', createdAt: 0 },
      forkedFrom: parents[letter] === undefined ? undefined : id(parents[letter]),
    },
  }))
  return {
    sandboxes: {
      all: () => all,
      find: (wanted: string) => all.find((one) => one.id === wanted),
    } as unknown as FamilyDependencies['sandboxes'],
    lineage: {
      parentOf: (child) => {
        const parent = parents[child.at(-1) ?? '']
        return parent === undefined ? undefined : id(parent)
      },
    },
    snapshots: { list: () => ({ items: [], nextCursor: undefined }) },
    memory: { measure: async () => undefined },
  }
}

const shown = async (deps: FamilyDependencies, of: string, keyId: string, isAdmin = false) =>
  (await familyOf(deps, { id: id(of) }, { keyId, isAdmin })).nodes.map((node) => [
    node.id.at(-1),
    node.parentId?.at(-1),
    node.kind === 'sandbox' && node.state,
  ])

test('a family has all forks of the oldest ancestor, also of a deleted one', async () => {
  const deps = family({ b: 'a', c: 'b', d: 'a' }, { a: 'me', c: 'me', d: 'me' })
  const all = [
    ['a', undefined, 'standby'],
    ['b', 'a', 'deleted'],
    ['d', 'a', 'standby'],
    ['c', 'b', 'standby'],
  ]
  for (const one of ['a', 'c', 'd']) expect((await shown(deps, one, 'me')).sort()).toEqual(all.sort())
})

test('sandboxes of other keys are not shown, except to an admin', async () => {
  const deps = family({ b: 'a', c: 'a' }, { a: 'me', b: 'other', c: 'me' })
  expect((await shown(deps, 'a', 'me')).map(([letter]) => letter)).toEqual(['a', 'c'])
  expect((await shown(deps, 'a', 'x', true)).map(([letter]) => letter)).toEqual(['a', 'b', 'c'])
})

test('a family has its sandboxes on other hosts', async () => {
  const deps = family({ b: 'a' }, { a: 'me', b: 'me' })
  const row = (letter: string, from: string) => ({
    ...{ id: id(letter), owner: 'me', state: 'standby', tier: 'stored', createdAt: 0, forkedFrom: id(from) },
  })
  const elsewhere = {
    rows: () => [
      { row: row('c', 'b') as never, ancestors: [id('b'), id('a')] },
      { row: row('d', 'x') as never, ancestors: [id('x')] },
    ],
    snapshots: () => [],
  }
  expect(await shown({ ...deps, elsewhere }, 'a', 'me')).toEqual([
    ['a', undefined, 'standby'],
    ['b', 'a', 'standby'],
    ['c', 'b', 'standby'],
  ])
})
