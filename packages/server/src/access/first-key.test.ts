import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Database, openDatabase } from '../store/database.ts'
import { stateMigrations } from '../store/migrations/index.ts'
import { clientFile, findClient, writeClient } from './client-file.ts'
import { prepareClient } from './first-key.ts'
import { StoredAccess } from './stored-access.ts'

let dataDir: string
let database: Database
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'dormouse-first-key-'))
  database = openDatabase({
    path: join(dataDir, 'state.db'),
    migrations: stateMigrations,
    synchronous: 'FULL',
  })
})
afterEach(() => {
  database.close()
  rmSync(dataDir, { recursive: true })
})

const start = (url = 'http://127.0.0.1:7070') => {
  const access = new StoredAccess(database)
  return { access, shown: prepareClient({ access, dataDir, url }) }
}
const mode = () => statSync(clientFile(dataDir)).mode & 0o777

describe('prepareClient', () => {
  it('makes an admin key at the first start only, and leaves it to the owner of the directory', () => {
    const { access, shown } = start()
    expect(access.authenticate(`Bearer ${shown}`)).toMatchObject({ name: 'first', isAdmin: true })
    expect(findClient(dataDir)).toEqual({ url: 'http://127.0.0.1:7070', key: shown })
    expect(mode()).toBe(0o600)
    expect(start().shown).toBeUndefined()
    expect(start().access.list()).toHaveLength(1)
  })

  it('tells clients the new address and keeps their key', () => {
    const { shown } = start()
    expect(start('http://127.0.0.1:9999').shown).toBeUndefined()
    expect(findClient(dataDir)).toEqual({ url: 'http://127.0.0.1:9999', key: shown })
    expect(mode()).toBe(0o600)
  })

  it('does not bring back a file that was taken away', () => {
    start()
    rmSync(clientFile(dataDir))
    expect(start('http://127.0.0.1:9999').shown).toBeUndefined()
    expect(existsSync(clientFile(dataDir))).toBe(false)
  })

  it('makes another key when it was killed between file and row', () => {
    // What a crash there leaves: a file with a key that the database does not know.
    writeClient(dataDir, { url: 'http://127.0.0.1:7070', key: 'dm_lost' })
    const { access, shown } = start()
    expect(findClient(dataDir)?.key).toBe(shown)
    access.authenticate(`Bearer ${shown}`)
  })
})

describe('writeClient', () => {
  it('has mode 0600 whatever the umask and whatever a crash left', () => {
    writeFileSync(`${clientFile(dataDir)}.new`, 'half')
    chmodSync(`${clientFile(dataDir)}.new`, 0o666)
    const umask = process.umask(0)
    try {
      writeClient(dataDir, { url: 'http://127.0.0.1:1', key: 'k' })
    } finally {
      process.umask(umask)
    }
    expect(mode()).toBe(0o600)
    expect(JSON.parse(readFileSync(clientFile(dataDir), 'utf8'))).toEqual({
      url: 'http://127.0.0.1:1',
      key: 'k',
    })
  })
})

describe('findClient', () => {
  it('says what to do with a file that makes no sense', () => {
    writeFileSync(clientFile(dataDir), '{"url": 7}')
    expect(() => findClient(dataDir)).toThrow(
      expect.objectContaining({ code: 'setup_failed', hint: expect.stringContaining('key create') }),
    )
  })
})
