import { appendFileSync, copyFileSync, mkdtempSync, readFileSync, rmSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { RunLog } from './run-log.ts'

let dir: string
let path: string
const opened: RunLog<string>[] = []

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'dormouse-run-log-'))
  path = join(dir, 'journal.log')
})
afterEach(() => {
  for (const log of opened.splice(0)) log[Symbol.dispose]()
  rmSync(dir, { recursive: true })
})

/** What the database has. `fails`: its disk is full. */
class Database {
  changes: string[] = []
  applied = 0
  fails = false
  hasRoom = true

  open(at = path): RunLog<string> {
    const apply = (changes: readonly string[], last: number) => {
      if (this.fails) throw new Error('full')
      this.changes.push(...changes)
      this.applied = last
    }
    const log = new RunLog<string>({ path: at, applied: this.applied, apply, hasRoom: () => this.hasRoom })
    opened.push(log)
    return log
  }
}

/** The file as a server leaves it that is killed now. */
function killed(): string {
  const copy = join(dir, `killed-${opened.length}`)
  copyFileSync(path, copy)
  return copy
}

test('changes reach the database together, in order, a moment later', async () => {
  const db = new Database()
  const log = db.open()
  for (const change of ['a', 'b']) expect(log.append(change, 1)).toBe(true)
  expect(db.changes).toEqual([])
  await expect.poll(() => db.changes).toEqual(['a', 'b'])
})

test('after kill -9 the next server applies what is left, and nothing twice', () => {
  const db = new Database()
  const log = db.open()
  log.append('a', 1)
  log.flush()
  for (const change of ['b', 'c']) log.append(change, 1)
  const left = killed()
  const next = db.open(left)
  expect(db.changes).toEqual(['a', 'b', 'c'])
  next.append('d', 1)
  next.flush()
  db.open(left)
  expect(db.changes).toEqual(['a', 'b', 'c', 'd'])
})

test('kill -9 between the transaction and the next change: nothing is applied again', () => {
  const db = new Database()
  const log = db.open()
  for (const change of ['a', 'b', 'c']) log.append(change, 1)
  log.flush()
  db.open(killed())
  expect(db.changes).toEqual(['a', 'b', 'c'])
})

test('what an earlier round left behind the newest change does not count', () => {
  const db = new Database()
  const log = db.open()
  for (const change of ['a long change', 'b', 'c']) log.append(change, 1)
  log.flush()
  log.append('d', 1)
  expect(readFileSync(path, 'utf8')).toMatch(/"d".*\n.*"c"/s)
  db.open(killed())
  expect(db.changes).toEqual(['a long change', 'b', 'c', 'd'])
})

test.each([1, 5, 12])(
  'a change whose last %i bytes are missing does not count, and those before do',
  (bytes) => {
    const db = new Database()
    const log = db.open()
    for (const change of ['a', 'b', 'another']) log.append(change, 1)
    const left = killed()
    truncateSync(left, readFileSync(left).length - bytes)
    // The rest of the line is of an earlier round.
    appendFileSync(left, 'x",1]\n')
    db.open(left)
    expect(db.changes).toEqual(['a', 'b'])
  },
)

test('changes that begin after what the database has are dropped: a power cut took those between', () => {
  const db = new Database()
  const log = db.open()
  log.append('a', 1)
  log.flush()
  log.append('b', 1)
  const left = killed()
  const before = new Database()
  const next = before.open(left)
  expect(before.changes).toEqual([])
  next.append('c', 1)
  before.open(left)
  expect(before.changes).toEqual(['c'])
})

test('without room, and for a long change, the caller writes: what waits is applied before', () => {
  const db = new Database()
  const log = db.open()
  log.append('a', 1)
  expect(log.append('long', 100_000)).toBe(false)
  expect(db.changes).toEqual(['a'])
  log.append('b', 1)
  db.hasRoom = false
  expect(log.append('c', 1)).toBe(false)
  expect(db.changes).toEqual(['a', 'b'])
})

test('after it was closed the caller writes', () => {
  const db = new Database()
  const log = db.open()
  log.append('a', 1)
  log[Symbol.dispose]()
  expect(db.changes).toEqual(['a'])
  expect(log.append('b', 1)).toBe(false)
})

test('on a full disk changes wait, at most some; then callers hear of it, and with room nothing is missing', () => {
  const db = new Database()
  const log = db.open()
  db.fails = true
  const appended: string[] = []
  const fill = () => {
    for (let n = 0; n < 1_000; n++) if (log.append(`${n}`, 1)) appended.push(`${n}`)
  }
  expect(fill).toThrow('full')
  expect(appended.length).toBeLessThan(1_000)
  db.fails = false
  log.flush()
  expect(db.changes).toEqual(appended)
})

test('a server whose disk is full at the start keeps what an earlier one left', () => {
  const db = new Database()
  db.open().append('a', 1)
  const left = killed()
  db.fails = true
  const log = db.open(left)
  log.append('b', 1)
  db.fails = false
  log.flush()
  expect(db.changes).toEqual(['a', 'b'])
})
