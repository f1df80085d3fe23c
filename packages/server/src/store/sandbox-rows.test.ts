import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSandboxId } from '@dormouse/contracts'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openDatabase } from './database.ts'
import { stateMigrations } from './migrations/index.ts'
import { SandboxRows } from './sandbox-rows.ts'

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
