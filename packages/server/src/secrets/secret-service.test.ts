import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SandboxId } from '@dormouse/contracts'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Database, openDatabase } from '../store/database.ts'
import { stateMigrations } from '../store/migrations/index.ts'
import { SealedValues } from './sealed-values.ts'
import { SecretRows } from './secret-rows.ts'
import { SecretService } from './secret-service.ts'

const ALICE = { keyId: 'alice', isAdmin: false }
const BOB = { keyId: 'bob', isAdmin: false }
const ADMIN = { keyId: 'admin', isAdmin: true }
const VALUE = 'sk-live-0123456789abcdef'
const GITHUB = { name: 'GITHUB_TOKEN', value: VALUE, domains: ['api.github.com', 'api.github.com'] }

let directory: string
let db: Database
let users: SandboxId[]
let applied: string[]
let errors: string[]

function open(): SecretService {
  return new SecretService({
    rows: new SecretRows(db),
    values: SealedValues.open(join(directory, 'secrets.key')),
    usedBy: () => users,
    apply: async (id) => void applied.push(id),
    takeFrom: async (id) => {
      users = users.filter((other) => other !== id)
    },
    now: () => 1_800_000_000_000,
    log: { info: () => {}, warn: () => {}, error: (_fields, message) => errors.push(message) },
  })
}

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'secrets-'))
  db = openDatabase({ path: join(directory, 'state.db'), migrations: stateMigrations, synchronous: 'FULL' })
  users = []
  applied = []
  errors = []
})
afterEach(() => {
  db.close()
  rmSync(directory, { recursive: true })
})

describe('a secret', () => {
  test('shows its placeholder and never its value', async () => {
    const service = open()
    const made = service.create(GITHUB, ALICE)
    expect(made).toMatchObject({ name: 'GITHUB_TOKEN', domains: ['api.github.com'], usedBy: [] })
    expect(made.placeholder).toMatch(/^dormouse-secret-[0-9a-f]{30}$/)
    const shown = [made, service.get('GITHUB_TOKEN', ALICE), service.list({ limit: 10 }, ALICE)]
    shown.push(await service.update('GITHUB_TOKEN', { value: `${VALUE}-2` }, ALICE))
    expect(JSON.stringify(shown)).not.toContain(VALUE)
    expect(service.secretsOf({ owner: 'alice', secrets: ['GITHUB_TOKEN'] })).toEqual([
      { placeholder: made.placeholder, value: `${VALUE}-2`, domains: ['api.github.com'] },
    ])
  })

  test('belongs to the key that created it', () => {
    const service = open()
    service.create(GITHUB, ALICE)
    expect(() => service.get('GITHUB_TOKEN', BOB)).toThrow('There is no secret')
    expect(() => service.require(['GITHUB_TOKEN'], { owner: 'bob', env: {} })).toThrow('There is no secret')
    expect(service.secretsOf({ owner: 'bob', secrets: ['GITHUB_TOKEN'] })).toEqual([])
    expect(service.list({ limit: 10 }, BOB).items).toEqual([])
    expect(service.get('GITHUB_TOKEN', ADMIN).name).toBe('GITHUB_TOKEN')
    service.create(GITHUB, BOB)
    expect(() => service.get('GITHUB_TOKEN', ADMIN)).toThrow('Several keys')
    expect(() => service.create(GITHUB, BOB)).toThrow('already a secret')
  })

  test('is not one variable with two values', () => {
    const service = open()
    service.create(GITHUB, ALICE)
    expect(() => service.require(['GITHUB_TOKEN'], { owner: 'alice', env: { GITHUB_TOKEN: 'x' } })).toThrow(
      'also a variable in env',
    )
  })

  test('changes for every sandbox that has it before the answer', async () => {
    const service = open()
    service.create(GITHUB, ALICE)
    users = ['sb-1', 'sb-2'] as SandboxId[]
    await service.update('GITHUB_TOKEN', { domains: ['*.github.com'] }, ALICE)
    expect(applied).toEqual(['sb-1', 'sb-2'])
    expect(service.secretsOf({ owner: 'alice', secrets: ['GITHUB_TOKEN'] })[0]).toMatchObject({
      value: VALUE,
      domains: ['*.github.com'],
    })
  })

  test('goes when no sandbox has it, or when they are to lose it', async () => {
    const service = open()
    service.create(GITHUB, ALICE)
    users = ['sb-1', 'sb-2'] as SandboxId[]
    await expect(service.delete('GITHUB_TOKEN', { force: false }, ALICE)).rejects.toMatchObject({
      code: 'in_use',
      message: 'The secret "GITHUB_TOKEN" is used by sb-1 and 1 more.',
    })
    await service.delete('GITHUB_TOKEN', { force: true }, ALICE)
    expect(() => service.get('GITHUB_TOKEN', ALICE)).toThrow('There is no secret')
  })
})

describe('a value that is too short, of a time when it was not refused', () => {
  test('is given to no sandbox, and used by none that has it', async () => {
    const service = open()
    // The bound is the contract's; here it is as if it had not been there.
    const { placeholder } = service.create({ ...GITHUB, value: 'abc1234' }, ALICE)
    expect(() => service.require(['GITHUB_TOKEN'], { owner: 'alice', env: {} })).toThrow('fewer than 8')
    expect(service.secretsOf({ owner: 'alice', secrets: ['GITHUB_TOKEN'] })).toEqual([
      {
        placeholder,
        value: '',
        domains: ['api.github.com'],
        problem: expect.stringContaining('fewer than 8'),
      },
    ])
    await service.update('GITHUB_TOKEN', { value: VALUE }, ALICE)
    service.require(['GITHUB_TOKEN'], { owner: 'alice', env: {} })
  })
})

describe('what is on disk', () => {
  test('has no value in the database, and the key in a file of its owner', () => {
    open().create(GITHUB, ALICE)
    db.close()
    const files = ['state.db', 'state.db-wal'].map((name) => {
      try {
        return readFileSync(join(directory, name), 'latin1')
      } catch {
        return ''
      }
    })
    expect(files.join()).toContain('GITHUB_TOKEN')
    expect(files.join()).not.toContain(VALUE)
    expect(statSync(join(directory, 'secrets.key')).mode & 0o777).toBe(0o600)
    db = openDatabase({ path: join(directory, 'state.db'), migrations: stateMigrations, synchronous: 'FULL' })
  })

  test('cannot be read with another key, says so, and can be set again', async () => {
    open().create(GITHUB, ALICE)
    rmSync(join(directory, 'secrets.key'))
    const service = open()
    const wanted = { owner: 'alice', secrets: ['GITHUB_TOKEN'] }
    expect(service.secretsOf(wanted)).toMatchObject([
      { value: '', problem: expect.stringContaining('cannot be read') },
    ])
    expect(errors).toEqual([expect.stringContaining('cannot be decrypted')])
    await service.update('GITHUB_TOKEN', { value: VALUE }, ALICE)
    expect(service.secretsOf(wanted)).toMatchObject([{ value: VALUE }])
  })

  test('is not read from the row of another secret, and a broken key is not overwritten', () => {
    const values = SealedValues.open(join(directory, 'secrets.key'))
    expect(values.find(values.seal(VALUE, 'one'), 'one')).toBe(VALUE)
    expect(values.find(values.seal(VALUE, 'one'), 'two')).toBeUndefined()
    expect(values.find(new Uint8Array(3), 'one')).toBeUndefined()
    writeFileSync(join(directory, 'secrets.key'), 'short')
    expect(() => SealedValues.open(join(directory, 'secrets.key'))).toThrow('is not the key')
    expect(readFileSync(join(directory, 'secrets.key'), 'utf8')).toBe('short')
  })
})
