import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newBurrowId, newSandboxId, newSnapshotId } from '@dormouse/contracts'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openDatabase } from './database.ts'
import { stateMigrations } from './migrations/index.ts'
import { type SandboxRow, SandboxRows } from './sandbox-rows.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-rows-'))
})
afterEach(() => rmSync(directory, { recursive: true }))

const open = (migrations = stateMigrations) =>
  openDatabase({ path: join(directory, 'state.db'), migrations, synchronous: 'FULL' })

test('sandboxes that are older than networks get what the server is configured with, once', () => {
  const [older, newer] = [newSandboxId(), newSandboxId()]
  const before = stateMigrations.findIndex(({ name }) => name === '0007-network')
  {
    using db = open(stateMigrations.slice(0, before))
    db.exec(`INSERT INTO sandboxes (id, owner, template, state, env, limits, volumes, metadata, idle_timeout_ms, store_after_ms,
      ephemeral, created_at, last_active_at, state_since)
      VALUES ('${older}', 'key', 'python', 'standby', '{}', '{}', '[]', '{}', 1, 1, 0, 1, 1, 1)`)
  }
  using db = open()
  const rows = new SandboxRows(db)
  rows.settleNetwork({ mode: 'none', allow: [] })
  const [found] = rows.all()
  expect(found).toMatchObject({ id: older, network: { mode: 'none', allow: [] } })
  if (found === undefined) return
  rows.put({ ...found, id: newer, createdAt: 2, network: { mode: 'allow', allow: ['example.com'] } })
  rows.settleNetwork({ mode: 'public', allow: [] })
  expect(rows.all().map(({ network }) => network)).toEqual([
    { mode: 'none', allow: [] },
    { mode: 'allow', allow: ['example.com'] },
  ])
})

test('a row is as it was put, whichever of its fields have changed since, also when it was never there', () => {
  using db = open()
  const rows = new SandboxRows(db)
  const first: SandboxRow = {
    ...{
      id: newSandboxId(),
      owner: 'key',
      name: 'box',
      template: 'python',
      isolation: 'microvm',
      state: 'creating',
      tier: undefined,
    },
    ...{ head: undefined, burrow: undefined, forkedFrom: undefined, env: { A: 'a' }, volumes: [] },
    ...{
      limits: { memoryBytes: 1, cpus: 1, pids: 1, diskBytes: 1 },
      metadata: {},
      idleTimeoutMs: 1,
      storeAfterMs: 1,
      maxBackgroundMs: 2,
      wakeOnTimer: true,
      connections: { keepAsleepMs: 1_000, wakeOnData: true },
      atMemoryLimit: 'pause',
      checkpointEveryMs: 60_000,
    },
    ...{ expires: undefined, ephemeral: false, network: { mode: 'none', allow: [] }, secrets: [] },
    ...{ createdAt: 1, lastActiveAt: 1, stateSince: 1, lostSince: undefined, diskBytes: undefined },
  }
  const changes: Partial<SandboxRow>[] = [
    {},
    { state: 'running', burrow: newBurrowId(), stateSince: 2, lastActiveAt: 3 },
    { state: 'standby', tier: 'frozen', head: newSnapshotId() },
    { tier: 'stored', burrow: undefined, lostSince: 4, wakesAt: 6, diskBytes: 5 },
    { name: 'other', state: 'running', tier: undefined, metadata: { a: 'b' } },
  ]
  let before = first
  for (const change of changes) {
    const row = { ...before, ...change }
    rows.put(row, before)
    expect(rows.all()).toEqual([row])
    before = row
  }
})
