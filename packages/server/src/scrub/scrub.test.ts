import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSandboxId, newSnapshotId, type SnapshotId } from '@dormouse/contracts'
import type { Engine, Snapshot, StoredPart } from '@dormouse/engine'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Database, openDatabase } from '../store/database.ts'
import { stateMigrations } from '../store/migrations/index.ts'
import { QuarantineRows } from '../store/quarantine-rows.ts'
import { ScrubRows } from '../store/scrub-rows.ts'
import { SnapshotRows } from '../store/snapshot-rows.ts'
import { Quarantine } from './quarantine.ts'
import { Scrub } from './scrub.ts'

let directory: string
let db: Database
let snapshots: SnapshotRows
let quarantine: Quarantine
let damaged: QuarantineRows
/** What is wrong with parts, by key; an error is thrown. */
const wrong = new Map<string, string | Error>()
let read: string[] = []
let parts: StoredPart[] = []
let onRead: (() => void) | undefined
const sandboxId = newSandboxId()

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-scrub-'))
  db = openDatabase({
    path: join(directory, 'state.db'),
    migrations: stateMigrations,
    synchronous: 'FULL',
  })
  snapshots = new SnapshotRows(db)
  damaged = new QuarantineRows(db)
  quarantine = new Quarantine({ rows: damaged, snapshots, now: Date.now })
  wrong.clear()
  read = []
  parts = []
  onRead = undefined
})
afterEach(() => {
  db.close()
  rmSync(directory, { recursive: true })
})

function put(createdAt: number): SnapshotId {
  const id = newSnapshotId()
  const snapshot = {
    ...{ id, sandboxId, kind: 'full', template: 'python', createdAt: new Date(createdAt) },
    ...{ volumes: [], bytes: { images: 1, memory: 1 } },
  } as unknown as Snapshot
  snapshots.put(snapshot, { owner: 'ada', isKept: true })
  return id
}

const part = (key: string, ...of: SnapshotId[]): StoredPart => ({
  ...{ key, kind: 'layer', snapshots: of, templates: [] },
})

const onDamage = vi.fn()
const open = () =>
  new Scrub({
    engine: {
      listParts: async (id?: SnapshotId) =>
        id === undefined ? parts : parts.filter((each) => each.snapshots.includes(id)),
      checkPart: async ({ key }: StoredPart) => {
        read.push(key)
        onRead?.()
        const problem = wrong.get(key)
        if (problem instanceof Error) throw problem
        return { readBytes: 10, ...(problem !== undefined && { damage: problem }) }
      },
    } as unknown as Engine,
    rows: new ScrubRows(db),
    ...{ damaged, quarantine, onDamage },
    options: { periodMs: 0, bytesPerSecond: 1, delayMs: 0 },
    isBusy: () => false,
    now: Date.now,
    log: { info: () => {}, warn: () => {}, error: () => {} },
  })

async function pass(scrub: Scrub): Promise<void> {
  scrub.start()
  await expect.poll(() => scrub.view().state, { timeout: 10_000 }).toBe('idle')
}

test('a part that cannot be checked keeps neither the others nor the end of the pass from coming', async () => {
  const [old, head] = [put(1), put(2)]
  parts = [part('a', old), part('b', head), part('c', old, head)]
  wrong.set('a', new Error('no memory')).set('b', 'it is damaged')
  await using scrub = open()
  await pass(scrub)
  expect(read).toEqual(['a', 'b', 'c'])
  expect(scrub.view()).toMatchObject({ readBytes: 20, damagedSnapshots: [{ snapshotId: head }] })
  expect(onDamage).toHaveBeenCalledExactlyOnceWith([head], 'it is damaged')
  const row = { id: sandboxId, name: undefined, forkedFrom: undefined }
  expect(() => quarantine.require(row, old)).not.toThrow()
  expect(() => quarantine.require(row, head)).toThrow(
    expect.objectContaining({
      code: 'snapshot_unusable',
      details: expect.objectContaining({ rollbackTo: old }),
    }),
  )
  wrong.clear()
  await pass(scrub)
  expect(scrub.view().damagedSnapshots).toEqual([])
})

test('a part that went while it was read is not damaged', async () => {
  const head = put(1)
  parts = [part('a', head)]
  wrong.set('a', 'it is missing')
  onRead = () => {
    parts = []
  }
  await using scrub = open()
  await pass(scrub)
  expect(read).toEqual(['a'])
  expect(scrub.view().damagedSnapshots).toEqual([])
})

test('of a new snapshot only what is new is read, and what it shares with a damaged one is damaged', async () => {
  const old = put(1)
  parts = [part('a', old), part('b', old)]
  wrong.set('b', 'it is damaged')
  await using scrub = open()
  await pass(scrub)
  const head = put(2)
  parts = [part('a', old, head), part('b', old, head), part('c', head)]
  read = []
  scrub.soon(head)
  await expect.poll(() => quarantine.find(head)?.reason, { timeout: 10_000 }).toBe('it is damaged')
  await expect.poll(() => read, { timeout: 10_000 }).toEqual(['c'])
})

test('what verify found damaged leaves the quarantine when a pass finds all of it whole', async () => {
  const head = put(1)
  parts = [part('a', head)]
  quarantine.addVerified(head, 'it is damaged')
  await using scrub = open()
  wrong.set('a', new Error('not now'))
  await pass(scrub)
  expect(quarantine.find(head)).toBeDefined()
  wrong.clear()
  await pass(scrub)
  expect(quarantine.find(head)).toBeUndefined()
})

test('a snapshot that is deleted leaves the quarantine', () => {
  const head = put(1)
  quarantine.add(part('a', head), 'it is damaged')
  expect(damaged.snapshots()).toHaveLength(1)
  snapshots.delete(head)
  expect(damaged.snapshots()).toEqual([])
  expect(quarantine.find(head)).toBeUndefined()
})
