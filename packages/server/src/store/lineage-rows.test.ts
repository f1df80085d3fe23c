import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSandboxId, newSnapshotId, type SandboxId } from '@dormouse/contracts'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Database, openDatabase } from './database.ts'
import { LineageRows } from './lineage-rows.ts'
import { stateMigrations } from './migrations/index.ts'
import { SnapshotRows } from './snapshot-rows.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-lineage-'))
})
afterEach(() => rmSync(directory, { recursive: true }))

const open = (migrations = stateMigrations) =>
  openDatabase({ path: join(directory, 'state.db'), migrations, synchronous: 'FULL' })

function addSnapshot(db: Database, sandboxId: SandboxId, name: string | null, createdAt = 1): string {
  const id = newSnapshotId()
  db.prepare<(string | number | null)[]>(
    `INSERT INTO snapshots (id, sandbox_id, owner, name, kind, template, created_at, is_kept, image_bytes, memory_bytes)
     VALUES (?, ?, 'key', ?, 'full', 'python', ?, 1, 0, 0)`,
  ).run(id, sandboxId, name, createdAt)
  return id
}

test('a sandbox is related to its forks and to what it was forked from, not to siblings', () => {
  using db = open()
  const lineage = new LineageRows(db)
  const [root, child, grandchild, sibling, other] = Array.from({ length: 5 }, newSandboxId) as SandboxId[]
  if (!root || !child || !grandchild || !sibling || !other) throw new Error('too few ids')
  lineage.put(child, root)
  lineage.put(grandchild, child)
  lineage.put(sibling, root)
  const isRelated = (one: SandboxId, two: SandboxId) => {
    expect(lineage.isRelated(one, two)).toBe(lineage.isRelated(two, one))
    return lineage.isRelated(one, two)
  }
  expect([isRelated(root, root), isRelated(root, child), isRelated(root, grandchild)]).toEqual([
    true,
    true,
    true,
  ])
  expect([isRelated(child, sibling), isRelated(grandchild, sibling), isRelated(root, other)]).toEqual([
    false,
    false,
    false,
  ])
})

test('deleted sandboxes stay known as long as a snapshot of a descendant needs them', () => {
  using db = open()
  const lineage = new LineageRows(db)
  const [root, child, grandchild, leaf] = Array.from({ length: 4 }, newSandboxId) as SandboxId[]
  if (!root || !child || !grandchild || !leaf) throw new Error('too few ids')
  lineage.put(child, root)
  lineage.put(grandchild, child)
  lineage.put(leaf, child)
  const snapshotId = addSnapshot(db, grandchild, 'kept')
  for (const id of [leaf, child, grandchild]) lineage.forget(id)
  lineage.prune()
  expect([lineage.isRelated(grandchild, root), lineage.isRelated(leaf, root)]).toEqual([true, false])
  db.prepare<[string]>('DELETE FROM snapshots WHERE id = ?').run(snapshotId)
  lineage.prune()
  expect(lineage.isRelated(grandchild, root)).toBe(false)
})

test('of snapshots of older versions with one name, the newest keeps it', () => {
  const sandboxId = newSandboxId()
  const before = stateMigrations.findIndex(({ name }) => name === '0016-snapshot-names')
  const ids: string[] = []
  {
    using db = open(stateMigrations.slice(0, before))
    for (const at of [1, 2, 3]) ids.push(addSnapshot(db, sandboxId, 'same', at))
    addSnapshot(db, newSandboxId(), 'same')
    addSnapshot(db, sandboxId, 'files before the loss')
  }
  using db = open()
  const snapshots = new SnapshotRows(db)
  expect(snapshots.findNamed(sandboxId, 'same')?.id).toBe(ids[2])
  expect(snapshots.get(ids[0] ?? '')?.name).toBe(`same.${ids[0]}`)
  expect(snapshots.findNamed(sandboxId, 'files-before-loss')).toBeDefined()
  expect(() => addSnapshot(db, sandboxId, 'same')).toThrow(/UNIQUE/)
})
