import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type Database, openDatabase } from '../store/database.ts'
import { stateMigrations } from '../store/migrations/index.ts'
import { SnapshotRows } from '../store/snapshot-rows.ts'
import { TemplateRows } from './template-rows.ts'
import { type TemplateBuilder, TemplateService } from './template-service.ts'

let dir: string
let db: Database
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'dormouse-templates-'))
  db = openDatabase({ path: join(dir, 'state.db'), migrations: stateMigrations, synchronous: 'NORMAL' })
})
afterEach(() => {
  db.close()
  rmSync(dir, { recursive: true })
})

const admin = { keyId: 'key', isAdmin: true }

function service(build: TemplateBuilder['build']): TemplateService {
  return new TemplateService({
    rows: new TemplateRows(db),
    snapshots: new SnapshotRows(db),
    builder: { list: async () => [], build, remove: async () => {} },
    isNeeded: () => false,
    dropSnapshot: async () => {},
    now: () => 0,
    log: { info() {}, warn() {}, error() {} },
  })
}

it('a build that fills the disk has failed, also when that cannot be written down', async () => {
  const templates = service(async (_description, { say }) => {
    const { page_count } = db.prepare<[], { page_count: number }>('PRAGMA page_count').get() ?? {
      page_count: 0,
    }
    db.exec(`PRAGMA max_page_count = ${page_count}`)
    for (let line = 0; line < 40; line++) say('x'.repeat(8192))
    throw new DormouseError('no_space', 'The disk is full.')
  })
  await templates.open()
  await templates.build({ name: 'big' } as never, admin)
  await expect.poll(() => templates.get('big', admin).state).toBe('failed')
  expect(templates.get('big', admin).error).toBe('The disk is full.')
  // The next server finds a build that did not come to an end.
  db.exec('PRAGMA max_page_count = 1000000')
  const next = service(async () => {})
  await next.open()
  expect(next.get('big', admin).state).toBe('failed')
})
