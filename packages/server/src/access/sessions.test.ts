import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Database, openDatabase } from '../store/database.ts'
import { stateMigrations } from '../store/migrations/index.ts'
import { SessionRows } from './session-rows.ts'
import { Sessions } from './sessions.ts'
import { StoredAccess } from './stored-access.ts'

let directory: string
let database: Database
let now = 0

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-sessions-'))
  database = openDatabase({
    path: join(directory, 'state.db'),
    migrations: stateMigrations,
    synchronous: 'FULL',
  })
  now = Date.UTC(2030, 0, 1)
})
afterEach(() => {
  database.close()
  rmSync(directory, { recursive: true })
})

function open() {
  const access = new StoredAccess(database)
  return { access, sessions: new Sessions({ rows: new SessionRows(database), access, nowMs: () => now }) }
}

test('a session outlives the server, has the scopes of its key, and the key is not stored with it', () => {
  const { access, sessions } = open()
  const { key } = access.create({ name: 'one', scopes: ['read'] })
  const { token } = sessions.signInWithKey(key)
  expect(open().sessions.find(token)?.key).toMatchObject({ name: 'one', scopes: ['read'] })
  expect(sessions.find(`${token}x`)).toBeUndefined()
  expect(() => sessions.signInWithKey('dm_no_such')).toThrow('not valid')
})

test('a session ends when it is ended, when its key is revoked, and after a week', () => {
  const { access, sessions } = open()
  access.create({ name: 'keeps the server open', scopes: ['admin'] })
  const { key, view } = access.create({ name: 'one', scopes: ['run'] })
  const [first, second] = [sessions.signInWithKey(key), sessions.signInWithKey(key)]
  sessions.end(first.token)
  expect(sessions.find(first.token)).toBeUndefined()
  expect(sessions.find(second.token)).toBeDefined()
  now += 7 * 86_400_000
  expect(sessions.find(second.token)).toBeUndefined()
  const third = sessions.signInWithKey(key)
  access.revoke(view.id)
  expect(sessions.find(third.token)).toBeUndefined()
})

test('a link works once, for a minute, and not after its key was revoked', () => {
  const { access, sessions } = open()
  access.create({ name: 'keeps the server open', scopes: ['admin'] })
  const { view } = access.create({ name: 'one', scopes: ['run'] })
  const { code } = sessions.createLink({ keyId: view.id })
  expect(sessions.signInWithCode(code).key.name).toBe('one')
  expect(() => sessions.signInWithCode(code)).toThrow('used before')
  const late = sessions.createLink({ keyId: view.id })
  now += 60_000
  expect(() => sessions.signInWithCode(late.code)).toThrow('expired')
  const revoked = sessions.createLink({ keyId: view.id })
  access.revoke(view.id)
  expect(() => sessions.signInWithCode(revoked.code)).toThrow('expired')
})

test('only the newest hundred sessions of a key are kept', () => {
  const { access, sessions } = open()
  const { key } = access.create({ name: 'one', scopes: ['admin'] })
  const tokens = Array.from({ length: 101 }, () => {
    now += 1
    return sessions.signInWithKey(key).token
  })
  expect(tokens.filter((token) => sessions.find(token) !== undefined)).toEqual(tokens.slice(1))
})
