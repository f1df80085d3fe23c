import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { KeyedMutex } from '@dormouse/async'
import { newSandboxId, newSnapshotId, type SnapshotId } from '@dormouse/contracts'
import type { Engine, Snapshot } from '@dormouse/engine'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { SandboxDependencies } from '../sandbox/sandbox-dependencies.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { stateMigrations } from '../store/migrations/index.ts'
import { SnapshotRows } from '../store/snapshot-rows.ts'
import { FetchedSnapshots } from './fetched-snapshots.ts'

const HOUR_MS = 3_600_000

let directory: string
let db: Database
let snapshots: SnapshotRows
let nowMs: number
let deleted: SnapshotId[]

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-fetched-'))
  db = openDatabase({ path: join(directory, 'state.db'), migrations: stateMigrations, synchronous: 'FULL' })
  snapshots = new SnapshotRows(db)
  nowMs = 0
  deleted = []
})
afterEach(() => {
  db.close()
  rmSync(directory, { recursive: true })
})

function add(bytes: number): SnapshotId {
  const snapshot = {
    ...{ id: newSnapshotId(), sandboxId: newSandboxId(), kind: 'full', template: 'python', volumes: [] },
    ...{ createdAt: new Date(0), bytes: { images: bytes, memory: 0 } },
  } as unknown as Snapshot
  snapshots.put(snapshot, { owner: 'key', isKept: true })
  return snapshot.id
}

function open(own: readonly SnapshotId[] = []): FetchedSnapshots {
  const engine = { deleteSnapshot: async (id: SnapshotId) => void deleted.push(id) } as unknown as Engine
  const deps = { snapshots, engine, log: {}, clock: { monotonicMs: () => nowMs } }
  return new FetchedSnapshots({
    deps: deps as unknown as SandboxDependencies,
    isFetched: (id) => !own.includes(id),
    maxBytes: 100,
    locks: new KeyedMutex(),
  })
}

it('those that were used least recently go when all take too much, and those taken here stay', async () => {
  const own = add(1000)
  const [first, second, third] = [add(40), add(40), add(40)]
  const fetched = open([own])
  nowMs = HOUR_MS
  fetched.touch(first)
  nowMs = 2 * HOUR_MS
  fetched.touch(second)
  fetched.touch(third)
  nowMs = 3 * HOUR_MS
  await fetched.trim()
  expect(deleted).toEqual([first])
  expect(snapshots.get(first)).toBeUndefined()
  await fetched.trim()
  expect(snapshots.ids()).toEqual(new Set([own, second, third]))
})

it('one that a caller has just asked for stays, and so does one that is held', async () => {
  const [recent, held] = [add(90), add(90)]
  const fetched = open()
  nowMs = HOUR_MS
  fetched.touch(recent)
  using _held = snapshots.hold(held)
  await fetched.trim()
  expect(deleted).toEqual([])
  nowMs = 2 * HOUR_MS
  await fetched.trim()
  expect(deleted).toEqual([recent])
})
