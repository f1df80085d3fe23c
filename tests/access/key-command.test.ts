import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PAGE_LIMIT_MAX } from '@dormouse/contracts/http'
import { DatabaseSync } from '@photostructure/sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { keyCommand } from '../../packages/cli/src/key-command.ts'
import type { KeyView } from '../../packages/server/src/access/access.ts'
import { clientFile, findClient } from '../../packages/server/src/access/client-file.ts'
import { prepareClient } from '../../packages/server/src/access/first-key.ts'
import { openStoredAccess } from '../../packages/server/src/access/open-stored-access.ts'
import { createApp } from '../../packages/server/src/api/app.ts'
import type { Services } from '../../packages/server/src/api/services.ts'

let dataDir: string
const ends: (() => Promise<unknown>)[] = []
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'dormouse-keys-'))
})
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
  rmSync(dataDir, { recursive: true })
})

async function key(...args: string[]) {
  const text = { stdout: '', stderr: '' }
  const write = (stream: 'stdout' | 'stderr') => ({ write: (part: string) => (text[stream] += part) })
  const status = await keyCommand({ dataDir, args, stdout: write('stdout'), stderr: write('stderr') })
  return { status, ...text }
}
const keyJson = async <Answer>(...args: string[]): Promise<Answer> =>
  JSON.parse((await key(...args, '--json')).stdout)
type Created = KeyView & { key: string }

/** The real API with real keys; these tests need no sandboxes. */
async function startServer() {
  const open = await openStoredAccess(dataDir)
  ends.push(() => open[Symbol.asyncDispose]())
  const health = { check: () => ({ status: 'ok', version: '0.0.0' }) }
  const ports = { domain: undefined }
  const app = await createApp({ access: open.access, health, ports } as unknown as Services, {
    logger: false,
    checkAnswers: true,
  })
  ends.push(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const shown = prepareClient({ access: open.access, dataDir, url })
  const ask = (bearer: string) =>
    fetch(`${url}/v1/keys`, { headers: { authorization: `Bearer ${bearer}` } }).then(({ status }) => status)
  return { url, shown, ask, access: open.access }
}

describe('dormouse key, no server running', () => {
  it('creates, lists, changes and revokes keys in the database, and releases the data directory', async () => {
    const admin = await key('create', 'root', '--scope', 'admin')
    expect(admin).toMatchObject({ status: 0, stdout: expect.stringMatching(/^dm_[2-9a-z]{12}_[\w-]{43}\n$/) })
    expect(admin.stderr).toContain('shown only now')
    const ci = await keyJson<Created>(
      'create',
      'ci',
      '--max-sandboxes=5',
      '--max-memory',
      '4GiB',
      '--max-disk=1.5GB',
      '--rate=20',
    )
    expect(ci).toMatchObject({
      scopes: ['run'],
      quotas: { sandboxes: 5, memoryBytes: 4 * 1024 ** 3, diskBytes: 1_500_000_000 },
      rateLimit: { perSecond: 20, burst: 20 },
    })
    await key('update', ci.id, '--max-sandboxes', 'none', '--max-running=2', '--rate=1.5', '--burst=9')
    const { keys } = await keyJson<{ keys: KeyView[] }>('list')
    expect(keys[1]).toMatchObject({
      name: 'ci',
      quotas: { running: 2 },
      rateLimit: { perSecond: 1.5, burst: 9 },
    })
    expect(keys[1]?.quotas.sandboxes).toBeUndefined()
    expect(JSON.stringify(keys)).not.toContain(ci.key.slice(-43))
    const revoked = await key('revoke', ci.id)
    expect(revoked).toMatchObject({ status: 0, stdout: '', stderr: `Revoked key ${ci.id} (ci).\n` })
    expect((await key('list')).stdout).toMatch(/ci .* revoked \d{4}/)
    expect(readdirSync(dataDir).filter((file) => file.startsWith('state.db'))).toEqual(['state.db'])
  })

  it('saves a key for local clients, and the server finds it', async () => {
    const created = await keyJson<Created>('create', 'mine', '--scope=admin', '--save')
    expect(findClient(dataDir)).toEqual({ url: 'http://127.0.0.1:7070', key: created.key })
    expect(statSync(clientFile(dataDir)).mode & 0o777).toBe(0o600)
    const { url, shown, ask } = await startServer()
    expect(shown).toBeUndefined()
    expect(findClient(dataDir)).toEqual({ url, key: created.key })
    expect(await ask(created.key)).toBe(200)
  })
})

describe('dormouse key, with a running server', () => {
  it('uses its API: a new key works immediately, and a revoked key stops immediately', async () => {
    const { ask, shown } = await startServer()
    expect(await ask(shown!)).toBe(200)
    const created = await keyJson<Created>('create', 'second', '--scope=admin', '--rate=1', '--burst=3')
    expect(await ask(created.key)).toBe(200)
    expect((await key('revoke', created.id)).stderr).toContain('Revoked key')
    expect(await ask(created.key)).toBe(401)
    const run = await keyJson<Created>('create', 'run')
    expect(await ask(run.key)).toBe(403)
  })

  it('raises the rate limit of a key for its next request', async () => {
    const { ask } = await startServer()
    const created = await keyJson<Created>('create', 'slow', '--scope=admin', '--rate=0.001', '--burst=1')
    expect([await ask(created.key), await ask(created.key)]).toEqual([200, 429])
    await key('update', created.id, '--rate=none')
    expect([await ask(created.key), await ask(created.key)]).toEqual([200, 200])
  })

  it('lists more keys than one page has', async () => {
    await key('create', 'admin', '--scope=admin', '--save')
    // One statement, because a thousand separate writes would wait for the disk a thousand times.
    const database = new DatabaseSync(join(dataDir, 'state.db'))
    database.exec(`INSERT INTO keys (id, name, secret_sha256, scopes, created_at_ms)
      WITH RECURSIVE many (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM many WHERE n < ${PAGE_LIMIT_MAX})
      SELECT printf('k%011d', n), 'key ' || n, zeroblob(32), 'read', n FROM many`)
    database.close()
    const { access } = await startServer()
    const { keys } = await keyJson<{ keys: KeyView[] }>('list')
    expect(new Set(keys.map(({ id }) => id)).size).toBe(PAGE_LIMIT_MAX + 2)
    expect(keys).toEqual(JSON.parse(JSON.stringify(access.list())))
  })

  it('shows the refusals of the server with its hints', async () => {
    const { shown } = await startServer()
    const id = shown!.split('_')[1]!
    await expect(key('revoke', id)).rejects.toMatchObject({
      code: 'conflict',
      hint: expect.stringContaining('key create'),
    })
    await expect(key('revoke', '222222222222')).rejects.toMatchObject({ code: 'not_found' })
  })

  it('says what to do when the key in client.json is wrong, and when there is none', async () => {
    const { url } = await startServer()
    writeFileSync(clientFile(dataDir), JSON.stringify({ url, key: 'dm_wrong' }))
    const wrong = { code: 'unauthorized', hint: expect.stringContaining('--save') }
    await expect(key('list')).rejects.toMatchObject(wrong)
    rmSync(clientFile(dataDir))
    await expect(key('list')).rejects.toMatchObject(wrong)
  })

  it('reports a server that does not answer', async () => {
    await startServer()
    const { key: secret } = findClient(dataDir)!
    writeFileSync(clientFile(dataDir), JSON.stringify({ url: 'http://127.0.0.1:1', key: secret }))
    await expect(key('list')).rejects.toMatchObject({ code: 'server_unreachable' })
  })
})

describe('dormouse key with mistakes', () => {
  it.each([
    [[], '`create`'],
    [['destroy'], '"destroy"'],
    [['create'], "missing required argument 'name'"],
    [['create', 'a', 'b'], 'too many arguments'],
    [['create', 'a', '--max-sandboxs=1'], '--max-sandboxs'],
    [['create', 'a', '--max-memory=lots'], '--max-memory'],
    [['create', 'a', '--max-memory=4GiBs'], '--max-memory'],
    [['create', 'a', '--burst=2'], '--burst needs --rate'],
    [['update', '--max-running=1'], "missing required argument 'id'"],
    [['list', 'all'], 'too many arguments'],
  ])('%j exits with 2 and a reason', async (args, message) => {
    const { status, stderr, stdout } = await key(...args)
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
    expect(stderr).toContain(message)
    expect(readdirSync(dataDir)).toEqual([])
  })

  it.each([
    [['create', 'a', '--scope=root'], 'scopes.0'],
    [['create', ''], 'name'],
    [['create', 'a\u0007'], 'name'],
    [['create', 'a', '--max-running=1.5'], 'quotas.running'],
    [['create', 'a', '--rate=0'], 'rateLimit.perSecond'],
    [['update', '222222222222'], 'at least one field to change'],
  ])('%j is refused by the schema', async (args, field) => {
    await expect(key(...args)).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining(field),
    })
    expect(readdirSync(dataDir)).toEqual([])
  })
})
