import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { DatabaseSync } from '@photostructure/sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Database, openDatabase } from './database.ts'
import type { Migration } from './migrate.ts'
import { isUniqueViolation } from './sqlite-error.ts'

const things: Migration = {
  name: '0001-things',
  sql: 'CREATE TABLE things (id TEXT PRIMARY KEY, size INTEGER NOT NULL) STRICT;',
}
const owners: Migration = {
  name: '0002-owners',
  sql: `CREATE TABLE owners (thing TEXT NOT NULL REFERENCES things (id)) STRICT;`,
}

/** With what tells one WAL from the one before in the same file. */
const WAL_HEADER_BYTES = 32

let directory: string
let path: string
const opened: Database[] = []
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-database-'))
  path = join(directory, 'state.db')
})
afterEach(() => {
  for (const database of opened.splice(0)) database.close()
  rmSync(directory, { recursive: true })
})

function open(migrations: readonly Migration[] = [things], at = path): Database {
  const database = openDatabase({ path: at, migrations, synchronous: 'FULL' })
  opened.push(database)
  return database
}

const insert = (database: Database) =>
  database.prepare<{ id: string; size: number }>('INSERT INTO things VALUES ($id, $size)')
const ids = (database: Database) =>
  database
    .prepare<[], { id: string }>('SELECT id FROM things ORDER BY id')
    .all()
    .map(({ id }) => id)

/** Every file that says something, and its contents. */
function fingerprint(): Record<string, string> {
  const files = readdirSync(directory).filter(
    (file) => !file.endsWith('-shm') && statSync(join(directory, file)).size > 0,
  )
  const digest = (file: string) =>
    createHash('sha256')
      .update(readFileSync(join(directory, file)))
      .digest('hex')
  return Object.fromEntries(files.map((file) => [file, digest(file)]))
}

describe('openDatabase', () => {
  it('makes a file for its owner only, in WAL mode, with the wanted durability and foreign keys', () => {
    const database = open()
    insert(database).run({ id: 'a', size: 1 })
    const pragma = (name: string) => Object.values(database.prepare<[], object>(`PRAGMA ${name}`).get()!)[0]
    expect(pragma('journal_mode')).toBe('wal')
    expect(pragma('synchronous')).toBe(2)
    expect(pragma('foreign_keys')).toBe(1)
    expect(pragma('busy_timeout')).toBe(5000)
    for (const file of ['state.db', 'state.db-wal', 'state.db-shm']) {
      expect(statSync(join(directory, file)).mode & 0o777).toBe(0o600)
    }
    using journal = openDatabase({
      path: join(directory, 'journal.db'),
      migrations: [],
      synchronous: 'NORMAL',
    })
    expect(journal.prepare<[], object>('PRAGMA synchronous').get()).toMatchObject({ synchronous: 1 })
  })

  it('continues in the same WAL after a checkpoint, so that no caller waits for a new one', async () => {
    const database = open()
    insert(database).run({ id: 'a', size: 1 })
    const header = () => readFileSync(`${path}-wal`).subarray(0, WAL_HEADER_BYTES)
    const before = header()
    await Promise.all([database.sync(), database.sync(), database.sync()])
    insert(database).run({ id: 'b', size: 1 })
    expect(header()).toEqual(before)
    await database.sync()
    expect(ids(database)).toEqual(['a', 'b'])
    const syncing = database.sync()
    database.close()
    await syncing
    await database.sync()
  })

  it('a quick transaction is as whole as any other, and the next one waits for the disk again', () => {
    const database = open()
    database.transactionWithoutSync(() => insert(database).run({ id: 'a', size: 1 }))
    const synchronous = database.prepare<[], object>('PRAGMA synchronous')
    expect(synchronous.get()).toMatchObject({ synchronous: 2 })
    expect(() =>
      database.transactionWithoutSync(() => {
        insert(database).run({ id: 'b', size: 1 })
        throw new Error('no')
      }),
    ).toThrow('no')
    expect(synchronous.get()).toMatchObject({ synchronous: 2 })
    database.transaction(() =>
      database.transactionWithoutSync(() => insert(database).run({ id: 'c', size: 1 })),
    )
    database.close()
    expect(ids(open())).toEqual(['a', 'c'])
  })

  it('runs only the migrations that are missing', () => {
    const first = open([things])
    insert(first).run({ id: 'a', size: 1 })
    first.close()
    const second = open([things, owners])
    second.prepare('INSERT INTO owners VALUES (?)').run('a')
    expect(second.prepare<[], object>('PRAGMA user_version').get()).toMatchObject({ user_version: 2 })
    expect(ids(second)).toEqual(['a'])
  })

  it('leaves the old schema when one of several migrations fails', () => {
    open([things]).close()
    const broken: Migration = { name: '0003-broken', sql: 'CREATE TABLE more (id TEXT); CREATE NONSENSE;' }
    expect(() => open([things, owners, broken])).toThrow(/NONSENSE/)
    const database = open([things])
    const tables = database.prepare<[], object>("SELECT name FROM sqlite_schema WHERE type = 'table'").all()
    expect(tables).toMatchObject([{ name: 'things' }])
  })

  it('refuses a database of a newer version and does not touch it', () => {
    open([things, owners]).close()
    const before = fingerprint()
    expect(() => open([things])).toThrow(
      expect.objectContaining({ code: 'database_newer', details: { found: 2, known: 1 } }),
    )
    expect(fingerprint()).toEqual(before)
  })

  it('refuses a file that is no database and does not touch it', () => {
    writeFileSync(path, 'shopping list: acorns, hazelnuts\n'.repeat(500))
    const before = fingerprint()
    expect(() => open()).toThrow(
      expect.objectContaining({ code: 'database_corrupt', message: expect.not.stringContaining(directory) }),
    )
    expect(fingerprint()).toEqual(before)
  })

  it('closes so that one file holds everything, and again is fine', () => {
    const database = open()
    insert(database).run({ id: 'a', size: 1 })
    expect(existsSync(`${path}-wal`)).toBe(true)
    database.close()
    database.close()
    expect(readdirSync(directory)).toEqual(['state.db'])
    expect(ids(open())).toEqual(['a'])
  })
})

describe('a database whose server was killed', () => {
  it('keeps what was committed', () => {
    const database = open()
    insert(database).run({ id: 'a', size: 1 })
    // The files as they are at this moment are what `kill -9` would leave.
    const left = join(directory, 'left')
    mkdirSync(left)
    for (const file of ['state.db', 'state.db-wal']) copyFileSync(join(directory, file), join(left, file))
    expect(ids(open([things], join(left, 'state.db')))).toEqual(['a'])
  })

  it('while it was made is taken back to its beginning and made anew', () => {
    // A file without contents, and one with a rollback journal: both are what a kill before WAL mode leaves.
    writeFileSync(path, '')
    expect(ids(open())).toEqual([])
    const raw = new DatabaseSync(join(directory, 'raw.db'))
    raw.exec(
      `PRAGMA journal_mode = DELETE; PRAGMA cache_size = 5; ${things.sql} PRAGMA user_version = 1; BEGIN`,
    )
    const add = raw.prepare('INSERT INTO things VALUES (?, ?)')
    for (let n = 0; n < 5000; n++) add.run(`thing-${n}`, n)
    for (const end of ['', '-journal']) {
      copyFileSync(join(directory, `raw.db${end}`), join(directory, `left.db${end}`))
    }
    raw.close()
    expect(statSync(join(directory, 'left.db-journal')).size).toBeGreaterThan(0)
    expect(ids(open([things], join(directory, 'left.db')))).toEqual([])
  })

  it('is checked, and refused untouched with its WAL when a page is damaged', () => {
    const first = open()
    first.transaction(() => {
      for (let n = 0; n < 2000; n++) insert(first).run({ id: `thing-${n}`, size: n })
    })
    first.close()
    const second = open()
    insert(second).run({ id: 'last', size: 1 })
    const wal = readFileSync(`${path}-wal`)
    second.close()
    writeFileSync(`${path}-wal`, wal)
    const file = openSync(path, 'r+')
    writeSync(file, Buffer.alloc(4096, 0xa5), 0, 4096, 4096 * 3)
    closeSync(file)
    const before = fingerprint()
    expect(() => open()).toThrow(
      expect.objectContaining({
        code: 'database_corrupt',
        hint: expect.stringContaining('wrote nothing'),
      }),
    )
    expect(fingerprint()).toEqual(before)
  })

  it('in the middle of a migration has the schema from before it, and the next start finishes it', async () => {
    const first = open([things])
    insert(first).run({ id: 'a', size: 1 })
    first.close()
    // Long enough to be killed inside: the child says so when the first statement is done, and then counts for minutes.
    const slow: Migration = {
      name: '0002-slow',
      sql: `CREATE TABLE slow (n INTEGER) STRICT;
        INSERT INTO slow WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 500000000) SELECT n FROM c;`,
    }
    const child = openInAnotherProcess([things, slow])
    try {
      await untilWalGrows()
      const exit = once(child, 'exit')
      child.kill('SIGKILL')
      expect(await exit).toEqual([null, 'SIGKILL'])
    } finally {
      child.kill('SIGKILL')
    }
    const raw = new DatabaseSync(path, { readOnly: true })
    expect(raw.prepare('PRAGMA user_version').get()).toMatchObject({ user_version: 1 })
    expect(raw.prepare("SELECT count(*) AS n FROM sqlite_schema WHERE name = 'slow'").get()).toMatchObject({
      n: 0,
    })
    raw.close()
    const database = open([things, owners])
    expect(ids(database)).toEqual(['a'])
    database.prepare('INSERT INTO owners VALUES (?)').run('a')
  })

  /** The page cache of SQLite spills into the WAL, uncommitted, when a transaction outgrows it. */
  async function untilWalGrows(): Promise<void> {
    const deadline = Date.now() + 30_000
    while (!existsSync(`${path}-wal`) || statSync(`${path}-wal`).size < 1024 ** 2) {
      if (Date.now() > deadline) throw new Error('The migration has not begun')
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }

  function openInAnotherProcess(migrations: readonly Migration[]): ChildProcess {
    const module = fileURLToPath(new URL('./database.ts', import.meta.url))
    const options = { path, migrations, synchronous: 'FULL' }
    const script = `
      import { runnerImport } from 'vite'
      const conditions = ['dormouse-source', 'node', 'import', 'default']
      const options = { configFile: false, resolve: { conditions }, ssr: { resolve: { conditions } } }
      const { module } = await runnerImport(${JSON.stringify(module)}, options)
      module.openDatabase(${JSON.stringify(options)})`
    const cwd = fileURLToPath(new URL('../../../..', import.meta.url))
    return spawn('node', ['--input-type=module', '-e', script], {
      cwd,
      stdio: ['ignore', 'ignore', 'inherit'],
    })
  }
})

describe('transaction', () => {
  it('keeps all or nothing', () => {
    const database = open()
    database.transaction(() => {
      insert(database).run({ id: 'a', size: 1 })
      insert(database).run({ id: 'b', size: 1 })
    })
    const failing = () =>
      database.transaction(() => {
        insert(database).run({ id: 'c', size: 1 })
        insert(database).run({ id: 'a', size: 1 })
      })
    expect(failing).toThrow(expect.toSatisfy(isUniqueViolation))
    expect(ids(database)).toEqual(['a', 'b'])
  })

  it('inside another undoes only itself, and goes when the outer one goes', () => {
    const database = open()
    const fail = () => {
      throw new Error('no')
    }
    database.transaction(() => {
      insert(database).run({ id: 'outer', size: 1 })
      database.transaction(() => insert(database).run({ id: 'inner', size: 1 }))
      expect(() =>
        database.transaction(() => {
          insert(database).run({ id: 'undone', size: 1 })
          fail()
        }),
      ).toThrow('no')
    })
    expect(ids(database)).toEqual(['inner', 'outer'])
    expect(() =>
      database.transaction(() => {
        database.transaction(() => insert(database).run({ id: 'late', size: 1 }))
        fail()
      }),
    ).toThrow('no')
    expect(ids(database)).toEqual(['inner', 'outer'])
  })

  it('refuses work that waits', () => {
    const database = open()
    const waiting = async () => {
      insert(database).run({ id: 'a', size: 1 })
    }
    expect(() => database.transaction(waiting as () => never)).toThrow(/synchronous/)
    expect(ids(database)).toEqual([])
  })

  it('answers no_space when the database may not grow, and continues afterwards', () => {
    const database = open()
    const pages = database.prepare<[], { page_count: number }>('PRAGMA page_count').get()!.page_count
    database.exec(`PRAGMA max_page_count = ${pages}`)
    const fill = () =>
      database.transaction(() => {
        for (let n = 0; n < 5000; n++) insert(database).run({ id: `thing-${n}`, size: n })
      })
    expect(fill).toThrow(expect.objectContaining({ code: 'no_space' }))
    expect(ids(database)).toEqual([])
    database.exec(`PRAGMA max_page_count = 1000000`)
    fill()
    expect(ids(database)).toHaveLength(5000)
  })
})
