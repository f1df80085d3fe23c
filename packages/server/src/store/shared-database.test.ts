import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openDatabase, openSharedDatabase, type SharedDatabase } from './database.ts'

const migrations = [
  { name: '0001-lines', sql: 'CREATE TABLE lines (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT' },
]
const ADD = 'INSERT INTO lines (text) VALUES (?)'
const PIECE = 'x'.repeat(10_000)

let dir = ''
let db: SharedDatabase | undefined
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'dormouse-shared-'))
})
afterEach(async () => {
  await db?.[Symbol.asyncDispose]()
  db = undefined
  rmSync(dir, { recursive: true })
})

function open(): SharedDatabase {
  db = openSharedDatabase({ path: join(dir, 'some.db'), migrations, synchronous: 'NORMAL' })
  return db
}
const fileBytes = () => statSync(join(dir, 'some.db')).size
const countOf = (opened: SharedDatabase) =>
  opened.prepare<[], { n: number }>('SELECT count(*) AS n FROM lines').get()?.n

async function giveBack(opened: SharedDatabase): Promise<void> {
  await opened.thread.write([{ sql: 'PRAGMA incremental_vacuum(100000)' }])
  await opened.thread.checkpoint()
}

describe('a database that a thread writes to as well', () => {
  test('has what both write, at the same time, and neither waits long', async () => {
    const opened = open()
    const insert = opened.prepare<[string]>(ADD)
    const aside = Array.from({ length: 100 }, () =>
      opened.thread.write([{ sql: ADD, rows: [[PIECE], [PIECE]] }]),
    )
    for (let n = 0; n < 100; n += 1) {
      opened.transaction(() => insert.run('here'))
      opened.write(() => insert.run('here'))
      if (n % 10 === 0) await new Promise(setImmediate)
    }
    await Promise.all(aside)
    expect(countOf(opened)).toBe(400)
  })

  test('undoes a transaction that fails in the thread, and says why', async () => {
    const opened = open()
    const steps = [
      { sql: ADD, rows: [['a']] },
      { sql: 'INSERT INTO lines (id, text) VALUES (?, ?)', rows: [[1, 'again']] },
    ]
    await expect(opened.thread.write(steps)).rejects.toMatchObject({ errcode: 1555 })
    expect(countOf(opened)).toBe(0)
    expect(await opened.thread.write([{ sql: ADD, rows: [['a'], ['b']] }])).toBe(2)
  })

  test('gives back the space of what is deleted', async () => {
    const opened = open()
    await opened.thread.write([{ sql: ADD, rows: Array.from({ length: 500 }, () => [PIECE]) }])
    await opened.thread.checkpoint()
    expect(fileBytes()).toBeGreaterThan(5_000_000)
    await opened.thread.write([{ sql: 'DELETE FROM lines WHERE id > ?', rows: [[10]] }])
    expect(opened.freePages()).toBeGreaterThan(1_000)
    await giveBack(opened)
    expect(opened.freePages()).toBe(0)
    expect(fileBytes()).toBeLessThan(500_000)
    expect(countOf(opened)).toBe(10)
  })

  test('gives it back also when the file is from before it could', async () => {
    const old = openDatabase({ path: join(dir, 'some.db'), migrations, synchronous: 'NORMAL' })
    const insert = old.prepare<[string]>(ADD)
    old.transaction(() => {
      for (let n = 0; n < 500; n += 1) insert.run(PIECE)
    })
    old.exec('DELETE FROM lines WHERE id > 20')
    old.close()
    expect(fileBytes()).toBeGreaterThan(5_000_000)
    const opened = open()
    expect(countOf(opened)).toBe(20)
    await opened.thread.write([{ sql: 'DELETE FROM lines WHERE id > ?', rows: [[10]] }])
    await giveBack(opened)
    expect(fileBytes()).toBeLessThan(500_000)
  })
})
