import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from './server-process.ts'

const VALUE = 'sk-live-0123456789abcdefgh'
const TRUSTED =
  'import ssl; print(any("Dormouse" in str(ca["subject"]) for ca in ssl.create_default_context().get_ca_certs()))'

describe('secrets over HTTP', () => {
  let server: ServerProcess
  let otherKey: string
  beforeAll(async () => {
    server = await ServerProcess.start({ idleTimeoutMs: 0 })
    otherKey = (await server.ok('/v1/keys', { json: { name: 'other', scopes: ['run'] } })).key
  })
  afterEach(() => server.clear())
  afterAll(() => server?.cleanUp())

  const secret = (name: string, more: object = {}) =>
    server.ok('/v1/secrets', { json: { name, value: VALUE, domains: ['api.example.com'], ...more } })
  const sandbox = (secrets: readonly string[], more: object = {}) =>
    server.ok('/v1/sandboxes', { json: { secrets, ...more } })
  const give = (id: string, secrets: readonly string[]) =>
    server.ok(`/v1/sandboxes/${id}`, { method: 'PATCH', json: { secrets } })
  const variable = (id: string, name: string) => server.run(id, `import os; print(os.environ.get("${name}"))`)

  test('a sandbox has placeholders, in Python, shells and processes, and trusts the edge', async () => {
    const { placeholder } = await secret('FIRST')
    const { id, secrets } = await sandbox(['FIRST'], { env: { PIP_CERT: '/mine' } })
    expect(secrets).toEqual(['FIRST'])
    expect(await variable(id, 'FIRST')).toBe(`${placeholder}\n`)
    const bash = await server.ok(`/v1/sandboxes/${id}/run`, {
      json: { language: 'bash', code: 'echo $FIRST $PIP_CERT $SSL_CERT_FILE' },
    })
    expect(bash.stdout).toBe(`${placeholder} /mine /etc/ssl/certs/ca-certificates.crt\n`)
    expect(await server.run(id, TRUSTED)).toBe('True\n')
    expect((await server.ok('/v1/secrets/FIRST')).usedBy).toEqual([id])
    await server.call(`/v1/sandboxes/${id}`, { method: 'DELETE' })
    expect((await server.ok('/v1/secrets/FIRST')).usedBy).toEqual([])
  })

  test('one without secrets is as it was: nothing of ours is in it', async () => {
    const { id } = await sandbox([])
    expect(await server.run(id, TRUSTED)).toBe('False\n')
    expect(await variable(id, 'SSL_CERT_FILE')).toBe('None\n')
  })

  test('nothing inside has the value, nor has anything on disk or in the log', async () => {
    await secret('HIDDEN')
    const { id } = await sandbox(['HIDDEN'])
    // The pattern is written so that it does not find itself.
    const look = await server.ok(`/v1/sandboxes/${id}/run`, {
      json: {
        language: 'bash',
        code: "grep -ral 'sk-live-[0]123456789' / --exclude-dir=proc --exclude-dir=sys 2>/dev/null; cat /proc/*/environ /proc/*/cmdline | grep -ac 'sk-live-[0]123456789'; true",
      },
    })
    expect(look.stdout).toBe('0\n')
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    const { stateDir } = server.factory
    for (const name of readdirSync(stateDir).filter((name) => statSync(join(stateDir, name)).isFile()))
      expect(readFileSync(join(stateDir, name), 'latin1'), name).not.toContain(VALUE)
    for (const name of ['secrets.key', 'edge.pem'])
      expect(statSync(join(stateDir, name)).mode & 0o777).toBe(0o600)
  })

  test('a secret that a live sandbox is given is there in the next run, and what it changed itself stays', async () => {
    const { placeholder } = await secret('LATER')
    const { placeholder: third } = await secret('THIRD')
    const { id } = await sandbox([])
    await server.run(id, 'x = 41')
    await give(id, ['LATER'])
    expect(await variable(id, 'LATER')).toBe(`${placeholder}\n`)
    expect(await server.run(id, TRUSTED)).toBe('True\n')
    await server.run(id, 'os.environ["LATER"] = "own"; os.environ["SSL_CERT_FILE"] = "/own"')
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    await give(id, ['LATER', 'THIRD'])
    expect(await server.run(id, 'print(x, os.environ["LATER"], os.environ["SSL_CERT_FILE"])')).toBe(
      '41 own /own\n',
    )
    expect(await variable(id, 'THIRD')).toBe(`${third}\n`)
    const copies = await server.run(
      id,
      'print(open("/etc/ssl/certs/ca-certificates.crt").read().count(open("/usr/local/share/ca-certificates/dormouse.crt").read()))',
    )
    expect(copies).toBe('1\n')
  })

  test('one that was deleted and made anew is what the next run finds: given again, in forks, after a rollback', async () => {
    const { placeholder: first } = await secret('AGAIN')
    const { id } = await sandbox(['AGAIN'])
    expect(await variable(id, 'AGAIN')).toBe(`${first}\n`)
    const before = await server.ok(`/v1/sandboxes/${id}/snapshots`, { json: { name: 'before' } })
    await server.call('/v1/secrets/AGAIN?force=true', { method: 'DELETE' })
    const { placeholder } = await secret('AGAIN')
    expect(placeholder).not.toBe(first)
    await give(id, ['AGAIN'])
    expect(await variable(id, 'AGAIN')).toBe(`${placeholder}\n`)
    await server.ok(`/v1/sandboxes/${id}/contexts`, { json: { name: 'fresh' } })
    const look = { context: 'fresh', code: 'import os; print(os.environ["AGAIN"])' }
    expect((await server.ok(`/v1/sandboxes/${id}/run`, { json: look })).stdout).toBe(`${placeholder}\n`)
    const { children } = await server.ok(`/v1/sandboxes/${id}/fork`, { json: { count: 1 } })
    expect(await variable(children[0].id, 'AGAIN')).toBe(`${placeholder}\n`)
    await server.ok(`/v1/sandboxes/${id}/rollback`, { json: { snapshotId: before.id } })
    expect(await variable(id, 'AGAIN')).toBe(`${placeholder}\n`)
  })

  test('a sandbox from a template has those that there are now, not those of what it was made of', async () => {
    const { placeholder: first } = await secret('MOLDED')
    const { id } = await sandbox(['MOLDED'])
    expect(await variable(id, 'MOLDED')).toBe(`${first}\n`)
    const { id: snapshotId } = await server.ok(`/v1/sandboxes/${id}/snapshots`, { json: {} })
    await server.ok('/v1/templates', { json: { name: 'molded', snapshotId } })
    await server.call('/v1/secrets/MOLDED?force=true', { method: 'DELETE' })
    const { placeholder } = await secret('MOLDED')
    const born = await sandbox(['MOLDED'], { template: 'molded' })
    expect(await variable(born.id, 'MOLDED')).toBe(`${placeholder}\n`)
    const given = await sandbox([], { template: 'molded' })
    expect(await variable(given.id, 'MOLDED')).toBe(`${first}\n`)
    await give(given.id, ['MOLDED'])
    expect(await variable(given.id, 'MOLDED')).toBe(`${placeholder}\n`)
  })

  test('forks and what is rolled back have them, too', async () => {
    const { placeholder } = await secret('KEPT')
    const { id } = await sandbox([])
    const before = await server.ok(`/v1/sandboxes/${id}/snapshots`, { json: { name: 'before' } })
    await give(id, ['KEPT'])
    const { children } = await server.ok(`/v1/sandboxes/${id}/fork`, { json: { count: 1 } })
    expect(children[0].secrets).toEqual(['KEPT'])
    expect(await variable(children[0].id, 'KEPT')).toBe(`${placeholder}\n`)
    await server.ok(`/v1/sandboxes/${id}/rollback`, { json: { snapshotId: before.id } })
    expect(await variable(id, 'KEPT')).toBe(`${placeholder}\n`)
    expect(await server.run(id, TRUSTED)).toBe('True\n')
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    await server.ok(`/v1/sandboxes/${id}/rollback`, { json: { snapshotId: before.id } })
    expect(await variable(id, 'KEPT')).toBe(`${placeholder}\n`)
    expect(await server.run(id, TRUSTED)).toBe('True\n')
  })

  test('what starts from files alone has them', async () => {
    const { placeholder } = await secret('BOOTED')
    const { id } = await sandbox(['BOOTED'])
    await server.run(id, 'x = 1')
    const files = await server.ok(`/v1/sandboxes/${id}/snapshots`, { json: { name: 'files', kind: 'files' } })
    await server.ok(`/v1/sandboxes/${id}/rollback`, { json: { snapshotId: files.id } })
    expect(await variable(id, 'BOOTED')).toBe(`${placeholder}\n`)
  })

  test('a sandbox that breaks the files of the server is still served', async () => {
    await secret('BROKEN')
    const { id } = await sandbox(['BROKEN'])
    await server.run(
      id,
      'import shutil; shutil.rmtree("/var/lib/dormouse"); open("/var/lib/dormouse", "w").write("x")',
    )
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    expect(await server.run(id, 'print(1)')).toBe('1\n')
  })

  test('secrets belong to a key; unknown ones change nothing', async () => {
    await secret('MINE')
    const theirs = await server.call('/v1/sandboxes', { json: { secrets: ['MINE'] }, key: otherKey })
    expect([theirs.status, theirs.body.error.code]).toEqual([404, 'not_found'])
    expect((await server.call('/v1/secrets/MINE', { key: otherKey })).status).toBe(404)
    expect((await server.ok('/v1/secrets', { key: otherKey })).items).toEqual([])
    const { id } = await sandbox(['MINE'])
    const refused = await server.call(`/v1/sandboxes/${id}`, {
      method: 'PATCH',
      json: { secrets: ['MINE', 'NONE'], idleTimeoutMs: 5 },
    })
    expect(refused.body.error).toMatchObject({ code: 'not_found', message: 'There is no secret "NONE".' })
    expect(await server.ok(`/v1/sandboxes/${id}`)).toMatchObject({ secrets: ['MINE'], idleTimeoutMs: 0 })
    const both = await server.call('/v1/sandboxes', { json: { secrets: ['MINE'], env: { MINE: 'x' } } })
    expect([both.status, both.body.error.code]).toEqual([400, 'invalid_argument'])
  })

  test('a value that would begin another header is refused, and not repeated', async () => {
    const good = { name: 'BAD', value: VALUE, domains: ['api.example.com'] }
    const bad = [
      { ...good, value: `${VALUE}\r\nX-Other: 1` },
      { ...good, value: { is: VALUE } },
      { ...good, valu: VALUE },
      { ...good, domains: VALUE },
      VALUE,
      [VALUE],
    ]
    for (const json of bad) {
      const { status, body } = await server.call('/v1/secrets', { json })
      expect([status, body.error.code]).toEqual([400, 'invalid_argument'])
      expect(JSON.stringify(body)).not.toContain(VALUE)
    }
  })

  test('a value of fewer than eight characters is refused, new or changed, with the reason', async () => {
    await secret('LONG_ENOUGH')
    const short = { value: '1234567' }
    for (const [path, method, json] of [
      ['/v1/secrets', 'POST', { name: 'SHORT', domains: ['api.example.com'], ...short }],
      ['/v1/secrets/LONG_ENOUGH', 'PATCH', short],
    ] as const) {
      const { status, body } = await server.call(path, { method, json })
      expect([status, body.error.message]).toEqual([400, expect.stringContaining('at least 8 characters')])
      expect(JSON.stringify(body)).not.toContain('1234567')
    }
  })

  test('one that is in use is deleted only by force, and everything is as before after a restart', async () => {
    const { placeholder } = await secret('STAYS')
    const { id } = await sandbox(['STAYS'])
    expect(await variable(id, 'STAYS')).toBe(`${placeholder}\n`)
    await server.stop()
    await server.begin()
    expect(await server.ok('/v1/secrets/STAYS')).toMatchObject({ placeholder, usedBy: [id] })
    const changed = await server.ok('/v1/secrets/STAYS', {
      method: 'PATCH',
      json: { domains: ['B.example.com'] },
    })
    expect(changed).toMatchObject({ placeholder, domains: ['b.example.com'] })
    const refused = await server.call('/v1/secrets/STAYS', { method: 'DELETE' })
    expect(refused.body.error).toMatchObject({ code: 'in_use', details: { usedBy: [id] } })
    expect((await server.call('/v1/secrets/STAYS?force=true', { method: 'DELETE' })).status).toBe(204)
    expect((await server.ok(`/v1/sandboxes/${id}`)).secrets).toEqual([])
    expect((await server.call('/v1/secrets/STAYS')).status).toBe(404)
  })
})
