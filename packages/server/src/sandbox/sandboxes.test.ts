import { newSandboxId } from '@dormouse/contracts'
import { expect, test } from 'vitest'
import type { Sandbox } from './sandbox.ts'
import { Sandboxes } from './sandboxes.ts'

function sandbox(name: string | undefined, owner = 'ada') {
  const id = newSandboxId()
  return { id, row: { id, name, owner }, isDeleted: false } as unknown as Sandbox & {
    row: { name: string | undefined }
    isDeleted: boolean
  }
}

test('finds sandboxes by id, and by name among those of one owner', () => {
  const sandboxes = new Sandboxes()
  const [hers, his, unnamed] = [sandbox('x'), sandbox('x', 'bob'), sandbox(undefined)]
  for (const one of [hers, his, unnamed]) sandboxes.add(one)
  expect(sandboxes.find(his.id)).toBe(his)
  expect(sandboxes.findNamed('x', 'ada')).toBe(hers)
  expect(sandboxes.findNamed('x', 'bob')).toBe(his)
  sandboxes.remove(hers)
  expect(sandboxes.findNamed('x', 'ada')).toBeUndefined()
  expect([...sandboxes.all()]).toEqual([his, unnamed])
})

test.each(['old', undefined])('a renamed sandbox is found by its new name only: %s before', (name) => {
  const sandboxes = new Sandboxes()
  const one = sandbox(name)
  sandboxes.add(one)
  Object.assign(one.row, { name: 'new' })
  sandboxes.changed(one, { name })
  expect(sandboxes.findNamed('old', 'ada')).toBeUndefined()
  expect(sandboxes.findNamed('new', 'ada')).toBe(one)
})

test('the name of a sandbox that is being deleted is free, and stays with the one that takes it', () => {
  const sandboxes = new Sandboxes()
  const [first, second] = [sandbox('x'), sandbox('x')]
  sandboxes.add(first)
  Object.assign(first, { isDeleted: true })
  expect(sandboxes.findNamed('x', 'ada')).toBeUndefined()
  sandboxes.add(second)
  sandboxes.remove(first)
  expect(sandboxes.findNamed('x', 'ada')).toBe(second)
})
