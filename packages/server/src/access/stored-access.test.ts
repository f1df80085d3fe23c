import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hasErrorCode } from '@dormouse/contracts'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Database, openDatabase } from '../store/database.ts'
import { stateMigrations } from '../store/migrations/index.ts'
import type { Scope } from './access.ts'
import { requireScope } from './require-scope.ts'
import { StoredAccess } from './stored-access.ts'

let directory: string
let database: Database
let access: StoredAccess
let monotonicMs: number
const clocks = { wallMs: () => Date.UTC(2030, 0, 1), monotonicMs: () => monotonicMs }

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-access-'))
  monotonicMs = 0
  database = open()
  access = new StoredAccess(database, clocks)
})
afterEach(() => {
  database.close()
  rmSync(directory, { recursive: true })
})

const open = () =>
  openDatabase({ path: join(directory, 'state.db'), migrations: stateMigrations, synchronous: 'FULL' })
const bearer = (key: string) => `Bearer ${key}`
const refusal = (work: () => unknown) => {
  try {
    work()
  } catch (error) {
    if (hasErrorCode(error, 'unauthorized'))
      return { message: error.message, hint: error.hint, details: error.details }
    throw error
  }
  throw new Error('was not refused')
}

describe('authenticate', () => {
  it('knows a key by its name, scopes and quotas', () => {
    const { key, view } = access.create({ name: 'ci', scopes: ['run'], quotas: { sandboxes: 3 } })
    const authenticated = access.authenticate(bearer(key))
    expect(authenticated).toMatchObject({
      keyId: view.id,
      name: 'ci',
      scopes: ['run'],
      isAdmin: false,
      quotas: { sandboxes: 3 },
    })
    expect(access.authenticate(`bearer  ${key} `)).toBe(authenticated)
    expect(JSON.stringify(authenticated)).not.toContain(key.slice(-20))
  })

  it('refuses in the same words a wrong secret, an unknown id, a revoked key and nonsense', () => {
    access.create({ name: 'admin', scopes: ['admin'] })
    const { key, view } = access.create({ name: 'ci', scopes: ['run'] })
    const other = access.create({ name: 'other', scopes: ['run'] })
    const revoked = access.create({ name: 'old', scopes: ['run'] })
    access.revoke(revoked.view.id)
    const flipped = (at: number) => {
      const index = at < 0 ? key.length + at : at
      return key.slice(0, index) + (key[index] === 'A' ? 'B' : 'A') + key.slice(index + 1)
    }
    const wrong = [
      flipped(`dm_${view.id}_`.length),
      flipped(-1),
      // The secret of one key with the id of another.
      key.replace(view.id, other.view.id),
      key.replace(view.id, '222222222222'),
      key.toUpperCase(),
      `${key}x`,
      revoked.key,
      'nonsense',
    ].map((text) => refusal(() => access.authenticate(bearer(text))))
    wrong.push(refusal(() => access.authenticate(key)))
    wrong.push(refusal(() => access.authenticate(`Basic ${key}`)))
    wrong.push(refusal(() => access.authenticate('')))
    expect(new Set(wrong.map((answer) => JSON.stringify(answer))).size).toBe(1)
    expect(refusal(() => access.authenticate(undefined)).message).toMatch(/no API key/)
  })

  it('finds keys again after a restart, and no secret is in any file', () => {
    const { key, view } = access.create({
      name: 'ci',
      scopes: ['admin', 'read'],
      quotas: { running: 2, memoryBytes: 2 ** 40 },
      rateLimit: { perSecond: 0.5, burst: 4 },
    })
    const secret = key.slice(-43)
    const contents = () =>
      readdirSync(directory).map((file) => readFileSync(join(directory, file)).includes(secret))
    expect(contents()).not.toContain(true)
    database.close()
    expect(contents()).toEqual([false])
    database = open()
    access = new StoredAccess(database, clocks)
    expect(access.authenticate(bearer(key))).toMatchObject({
      isAdmin: true,
      quotas: { memoryBytes: 2 ** 40 },
    })
    expect(access.list()).toEqual([view])
    expect(view).toMatchObject({
      createdAt: '2030-01-01T00:00:00.000Z',
      scopes: ['read', 'admin'],
      rateLimit: { perSecond: 0.5, burst: 4 },
    })
  })
})

describe('revoke', () => {
  it('holds for the next request and for one already authenticated, ends streams, and survives a restart', () => {
    access.create({ name: 'admin', scopes: ['admin'] })
    const { key, view } = access.create({ name: 'ci', scopes: ['run'] })
    const authenticated = access.authenticate(bearer(key))
    expect(access.revoke(view.id).revokedAt).toBe('2030-01-01T00:00:00.000Z')
    refusal(() => access.authenticate(bearer(key)))
    refusal(() => access.checkRate(authenticated))
    expect(authenticated.revoked.aborted).toBe(true)
    expect(authenticated.revoked.reason).toMatchObject({ code: 'unauthorized' })
    expect(access.revoke(view.id)).toEqual(access.get(view.id))
    const reopened = new StoredAccess(database)
    refusal(() => reopened.authenticate(bearer(key)))
    expect(reopened.get(view.id).revokedAt).toBeDefined()
  })

  it('refuses to take the last admin key, and takes it when there is another', () => {
    const first = access.create({ name: 'first', scopes: ['admin'] })
    access.create({ name: 'ci', scopes: ['run'] })
    expect(() => access.revoke(first.view.id)).toThrow(expect.objectContaining({ code: 'conflict' }))
    access.authenticate(bearer(first.key))
    access.create({ name: 'second', scopes: ['admin'] })
    access.revoke(first.view.id)
    refusal(() => access.authenticate(bearer(first.key)))
  })

  it('answers not_found for a key that is not there', () => {
    expect(() => access.revoke('nobody')).toThrow(expect.objectContaining({ code: 'not_found' }))
  })

  it('does not take a key whose row could not be written', () => {
    access.create({ name: 'admin', scopes: ['admin'] })
    const { key, view } = access.create({ name: 'ci', scopes: ['run'] })
    database.exec("CREATE TRIGGER refuse BEFORE UPDATE ON keys BEGIN SELECT RAISE (ABORT, 'no'); END")
    expect(() => access.revoke(view.id)).toThrow('no')
    expect(access.get(view.id).revokedAt).toBeUndefined()
    access.authenticate(bearer(key))
  })
})

describe('update', () => {
  it('changes what is named, removes what is null, and keeps the rest; streams continue', () => {
    const { key, view } = access.create({
      name: 'ci',
      scopes: ['run'],
      quotas: { sandboxes: 3, running: 1, diskBytes: 5 },
      rateLimit: { perSecond: 1, burst: 1 },
    })
    const { revoked } = access.authenticate(bearer(key))
    access.update(view.id, { quotas: { sandboxes: 9, running: null, diskBytes: undefined }, rateLimit: null })
    expect(access.authenticate(bearer(key)).quotas).toEqual({ sandboxes: 9, diskBytes: 5 })
    expect(new StoredAccess(database).get(view.id)).toMatchObject({ name: 'ci', rateLimit: undefined })
    expect(access.authenticate(bearer(key)).revoked).toBe(revoked)
    expect(revoked.aborted).toBe(false)
  })

  it('refuses a revoked key', () => {
    access.create({ name: 'admin', scopes: ['admin'] })
    const { view } = access.create({ name: 'ci', scopes: ['run'] })
    access.revoke(view.id)
    expect(() => access.update(view.id, { name: 'x' })).toThrow(expect.objectContaining({ code: 'conflict' }))
  })
})

describe('checkRate', () => {
  it('limits each key by its own bucket and says when to come again', () => {
    const limited = access.create({ name: 'a', scopes: ['run'], rateLimit: { perSecond: 2, burst: 2 } })
    const free = access.create({ name: 'b', scopes: ['run'] })
    const key = access.authenticate(bearer(limited.key))
    access.checkRate(key)
    access.checkRate(key)
    expect(() => access.checkRate(key)).toThrow(
      expect.objectContaining({ code: 'rate_limited', details: { retryAfterMs: 500 } }),
    )
    for (let n = 0; n < 1000; n++) access.checkRate(access.authenticate(bearer(free.key)))
    monotonicMs += 500
    access.checkRate(key)
  })
})

describe('requireScope', () => {
  it.each([
    ['read', ['read']],
    ['run', ['read', 'run']],
    ['admin', ['read', 'run', 'admin']],
  ] as [Scope, Scope[]][])('%s allows %j and nothing else', (scope, allowed) => {
    const key = access.authenticate(bearer(access.create({ name: 'k', scopes: [scope] }).key))
    for (const wanted of ['read', 'run', 'admin'] as const) {
      const ask = () => requireScope(key, wanted)
      if (allowed.includes(wanted)) ask()
      else expect(ask).toThrow(expect.objectContaining({ code: 'scope_missing' }))
    }
  })
})
