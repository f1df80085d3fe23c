import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { openDatabase } from '../database.ts'
import { jobMigrations } from './index.ts'

const dir = mkdtempSync(join(tmpdir(), 'dormouse-'))
afterEach(() => rmSync(dir, { recursive: true }))

it('renames what stored jobs and schedules say about their sandboxes', () => {
  const path = join(dir, 'jobs.db')
  const before = openDatabase({ path, migrations: jobMigrations.slice(0, 3), synchronous: 'FULL' })
  before.transaction(() => {
    const job = before.prepare<[string, string]>(
      `INSERT INTO jobs (id, owner, state, request, priority, total, created_at) VALUES (?, 'a', 'running', ?, 0, 1, 1)`,
    )
    job.run('one', JSON.stringify({ code: '1', isolation: 'worker', metadata: { isolation: 'mine' } }))
    const schedule = before.prepare<[string, string]>(
      `INSERT INTO schedules (id, owner, name, cron, timezone, missed, enabled, action, created_at, settled_at)
       VALUES (?1, 'a', ?1, '* * * * *', 'UTC', 'skip', 1, ?2, 1, 1)`,
    )
    schedule.run('job', JSON.stringify({ type: 'job', job: { code: '1', isolation: 'task' } }))
    schedule.run('run', JSON.stringify({ type: 'run', code: 'isolation' }))
  })
  before.close()
  const after = openDatabase({ path, migrations: jobMigrations, synchronous: 'FULL' })
  const read = (sql: string) =>
    after
      .prepare<[], { text: string }>(sql)
      .all()
      .map(({ text }) => JSON.parse(text))
  expect(read('SELECT request AS text FROM jobs')).toEqual([
    { code: '1', sandboxPer: 'worker', metadata: { isolation: 'mine' } },
  ])
  expect(read('SELECT action AS text FROM schedules ORDER BY id')).toEqual([
    { type: 'job', job: { code: '1', sandboxPer: 'task' } },
    { type: 'run', code: 'isolation' },
  ])
  after.close()
})
