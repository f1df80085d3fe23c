import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { readFile, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { FAILURES_BURST } from '../../packages/server/src/ssh/limits.ts'
import { ServerProcess } from '../server/server-process.ts'
import { finish, useSsh } from './ssh-client.ts'

const bench = useSsh()
const newKey = async (scopes: string[]) =>
  (await bench.server.ok('/v1/keys', { json: { name: 'other', scopes } })) as { id: string; key: string }
const say = (identity: string, user: string, settings: string[] = []) =>
  bench.client.ssh(identity, [`${user}@127.0.0.1`, 'echo in'], { settings })
const DENIED = { code: 255, stderr: expect.stringContaining('Permission denied (publickey)') }

describe('who gets in', () => {
  test('the holder of a key that was added, of any modern kind', async () => {
    const { client } = bench
    for (const [name, options] of [
      ['rsa', ['-t', 'rsa', '-b', '3072']],
      ['ecdsa', ['-t', 'ecdsa', '-b', '256']],
      ['ecdsa521', ['-t', 'ecdsa', '-b', '521']],
    ] as const) {
      const path = await client.addKey(name, { options: [...options] })
      expect(await say(path, 'box'), name).toMatchObject({ code: 0, stderr: '' })
    }
    const rsa = join(client.dir, 'rsa')
    const old = await say(rsa, 'box', ['PubkeyAcceptedAlgorithms=ssh-rsa'])
    expect(old.code).toBe(255)
  })

  test('no other key, with the same message whether the sandbox exists or not', async () => {
    const stranger = bench.client.keygen('stranger')
    expect(await say(stranger, 'box')).toMatchObject(DENIED)
    expect(await say(stranger, 'nothing')).toMatchObject(DENIED)
    const none = ['PreferredAuthentications=password,keyboard-interactive,none', 'PubkeyAuthentication=no']
    expect(await say(bench.key, 'box', none)).toMatchObject(DENIED)
    const weak = ['KexAlgorithms=diffie-hellman-group14-sha1', 'Ciphers=aes128-cbc', 'MACs=hmac-sha1']
    for (const one of weak)
      expect(await say(bench.key, 'box', [one, 'Ciphers=aes256-ctr']), one).toMatchObject({
        code: 255,
        stdout: Buffer.alloc(0),
      })
  })

  test('by name, id or the beginning of either, within what the API key sees', async () => {
    const { server, client, key } = bench
    const { id } = await server.ok('/v1/sandboxes/box')
    for (const user of [id, id.slice(0, 9), id.slice(3, 9), 'bo'])
      expect((await say(key, user)).code, user).toBe(0)
    const missing = await say(key, 'nothing')
    expect([missing.code, missing.stderr]).toEqual([
      255,
      expect.stringContaining('There is no sandbox "nothing"'),
    ])
    const other = await newKey(['run'])
    const theirs = await client.addKey('theirs', { key: other.key })
    for (const user of ['box', id, 'bo', 'sb-'])
      expect(await say(theirs, user)).toMatchObject({
        code: 255,
        stderr: expect.stringContaining('There is no sandbox'),
      })
    await server.ok('/v1/sandboxes', { json: { name: 'box' }, key: other.key })
    await server.ok('/v1/sandboxes', { json: { name: 'boxes' }, key: other.key })
    expect((await say(theirs, 'box')).code).toBe(0)
    expect((await say(theirs, 'bo')).stderr).toMatch(/"bo" could be/)
    const { items } = await server.ok('/v1/ssh-keys', { key: other.key })
    expect(items.map(({ name }: { name: string }) => name)).toEqual(['theirs'])
    // An admin sees everybody's.
    const foreign = await server.ok('/v1/sandboxes/boxes', { key: other.key })
    expect((await say(key, foreign.id)).code).toBe(0)
    await server.ok(`/v1/keys/${other.id}`, { method: 'DELETE' })
    expect(await say(theirs, 'box')).toMatchObject(DENIED)
  })

  test('a key of two API keys leads to either, and never to one of two sandboxes of the same name', async () => {
    const { server, client } = bench
    const [first, second] = [await newKey(['run']), await newKey(['run'])]
    const path = await client.addKey('shared', { key: first.key })
    const { confirmAs } = await client.addPending('mine', path, second.key)
    expect((await say(path, confirmAs)).code).toBe(0)
    const make = async (name: string, key: string) =>
      (await server.ok('/v1/sandboxes', { json: { name }, key })).id as string
    const ids = [await make('twice', first.key), await make('twice', second.key)]
    const once = await make('once', second.key)
    const where = async (user: string) => {
      const { code, stdout, stderr } = await client.ssh(path, [
        `${user}@127.0.0.1`,
        'echo $DORMOUSE_SANDBOX_ID',
      ])
      return code === 0 ? stdout.toString().trim() : stderr
    }
    for (const user of ['twice', 'twi']) {
      const refused = await where(user)
      for (const id of ids) expect(refused).toContain(id)
      expect(refused).toContain(`"${user}" could be`)
    }
    for (const id of [...ids, once]) expect(await where(id)).toBe(id)
    expect(await where('once')).toBe(once)
    for (const { id } of [first, second]) await server.ok(`/v1/keys/${id}`, { method: 'DELETE' })
  })

  test('a key that only reads cannot add an SSH key', async () => {
    const reader = await newKey(['read'])
    const publicKey = await readFile(`${bench.client.keygen('reader')}.pub`, 'utf8')
    const refused = await bench.server.call('/v1/ssh-keys', {
      json: { name: 'reader', publicKey },
      key: reader.key,
    })
    expect([refused.status, refused.body.error.code]).toEqual([403, 'scope_missing'])
  })
})

describe('a public key that another API key adds', () => {
  test('leads its holder nowhere: not before, beside or after the holder adds it', async () => {
    const { server, client } = bench
    const [squatter, victim] = [await newKey(['run']), await newKey(['run'])]
    const path = client.keygen('victim')
    const work = { json: { name: 'work' } }
    const stolen = await client.addPending('stolen', path, squatter.key)
    const trap = await server.ok('/v1/sandboxes', { ...work, key: squatter.key })
    for (const user of ['work', trap.id]) expect(await say(path, user)).toMatchObject(DENIED)
    const { confirmAs } = await client.addPending('mine', path, victim.key)
    expect(await say(path, confirmAs)).toMatchObject({ code: 0 })
    const mine = await server.ok('/v1/sandboxes', { ...work, key: victim.key })
    const where = await client.ssh(path, ['work@127.0.0.1', 'echo $DORMOUSE_SANDBOX_ID'])
    expect(where.stdout.toString()).toBe(`${mine.id}\n`)
    await server.ok(`/v1/sandboxes/${mine.id}`, { method: 'DELETE', key: victim.key })
    expect((await say(path, 'work')).stderr).toContain('There is no sandbox "work"')
    await server.ok(`/v1/keys/${victim.id}`, { method: 'DELETE' })
    expect(await say(path, 'work')).toMatchObject(DENIED)
    expect(await server.ok('/v1/ssh-keys/stolen', { key: squatter.key })).toMatchObject({
      ...{ confirmed: false, confirmAs: stolen.confirmAs },
    })
    await server.ok(`/v1/keys/${squatter.id}`, { method: 'DELETE' })
  })

  test('is confirmed by its private key together with its own code, once', async () => {
    const { server, client } = bench
    const [path, other] = [client.keygen('holder'), client.keygen('not-holder')]
    const mine = await client.addPending('holder', path, server.key)
    const theirs = await client.addPending('not-holder', other, server.key)
    expect(mine).toMatchObject({
      confirmed: false,
      confirmAs: expect.stringMatching(/^confirm\+[a-z2-7]{20}$/),
    })
    for (const [identity, user] of [
      [other, mine.confirmAs],
      [path, theirs.confirmAs],
      [path, 'confirm+'],
      [path, `${mine.confirmAs}a`],
      [path, 'box'],
    ] as const)
      expect(await say(identity, user), user).toMatchObject(DENIED)
    // Who only asks whether the key would do has not signed.
    expect((await server.ok('/v1/ssh-keys/holder')).confirmed).toBe(false)
    const confirmed = await client.ssh(path, [`${mine.confirmAs}@127.0.0.1`, 'ignored'])
    expect([confirmed.code, confirmed.stdout.toString()]).toEqual([0, expect.stringContaining('"holder"')])
    expect(await server.ok('/v1/ssh-keys/holder')).not.toHaveProperty('confirmAs')
    expect((await say(path, 'box')).code).toBe(0)
    expect(await say(path, mine.confirmAs)).toMatchObject(DENIED)
    await server.stop()
    await server.begin()
    await client.learnAddress()
    expect((await say(path, 'box')).code).toBe(0)
    for (const name of ['holder', 'not-holder']) await server.ok(`/v1/ssh-keys/${name}`, { method: 'DELETE' })
  })

  test('confirms nothing but itself: no command, file or port is reached that way', async () => {
    const { server, client } = bench
    const path = client.keygen('narrow')
    const { confirmAs } = await client.addPending('narrow', path, server.key)
    const forwarded = await client.ssh(path, ['-W', 'localhost:22', `${confirmAs}@127.0.0.1`])
    expect(forwarded.code).not.toBe(0)
    await server.ok('/v1/ssh-keys/narrow', { method: 'DELETE' })
    const again = await client.addPending('narrow', path, server.key)
    const ran = await client.ssh(path, [`${again.confirmAs}@127.0.0.1`, 'echo ran; cat'], { input: 'x' })
    expect([ran.code, ran.stdout.toString()]).toEqual([0, expect.not.stringContaining('ran\n')])
    await server.ok('/v1/ssh-keys/narrow', { method: 'DELETE' })
  })
})

describe('who is thrown out', () => {
  /** One that is in. */
  const session = async (identity: string) => {
    // By id: of two admins only one has it by name.
    const { id } = await bench.server.ok('/v1/sandboxes/box')
    const child = bench.client.start(identity, [`${id}@127.0.0.1`, 'echo in; sleep 1000'])
    const ended = finish(child)
    await once(child.stdout as NonNullable<typeof child.stdout>, 'data')
    return { ended }
  }

  /** Those of earlier tests may take a moment to go. */
  const expectAwakeForSession = () =>
    expect
      .poll(async () => (await bench.server.ok('/v1/sandboxes/box/why')).summary, { timeout: 10_000 })
      .toMatch(/^Awake because of an SSH session, process \d+ \(echo in; sleep 1000\)\.$/)

  test('whose SSH key is deleted, at once', async () => {
    const { ended } = await session(await bench.client.addKey('short'))
    await expectAwakeForSession()
    await bench.server.ok('/v1/ssh-keys/short', { method: 'DELETE' })
    expect((await ended).code).toBe(255)
    expect(await say(join(bench.client.dir, 'short'), 'box')).toMatchObject(DENIED)
  })

  test('whose API key is revoked, at once', async () => {
    const admin = await newKey(['admin'])
    const { ended } = await session(await bench.client.addKey('revoked', { key: admin.key }))
    await expectAwakeForSession()
    await bench.server.ok(`/v1/keys/${admin.id}`, { method: 'DELETE' })
    expect((await ended).code).toBe(255)
    expect(await say(join(bench.client.dir, 'revoked'), 'box')).toMatchObject(DENIED)
  })
})

describe('keys', () => {
  test('are listed, looked at, and refused when they are none', async () => {
    const { server, client } = bench
    const add = (name: string, publicKey: string) =>
      server.call('/v1/ssh-keys', { json: { name, publicKey } })
    const listed = await server.ok('/v1/ssh-keys/laptop')
    const line = (await readFile(join(client.dir, 'laptop.pub'), 'utf8')).trim()
    expect(line.startsWith(listed.publicKey)).toBe(true)
    const { stdout } = await client.run('ssh-keygen', ['-l', '-f', join(client.dir, 'laptop.pub')])
    expect(stdout.toString()).toContain(listed.fingerprint)
    const code = async (answer: ReturnType<typeof add>) => (await answer).body.error.code
    expect(await code(add('laptop', (await readFile(`${client.keygen('fresh')}.pub`, 'utf8')).trim()))).toBe(
      'name_taken',
    )
    expect(await code(add('again', line))).toBe('already_exists')
    const small = (await readFile(`${client.keygen('small', '-t', 'rsa', '-b', '1024')}.pub`, 'utf8')).trim()
    const dsa = 'ssh-dss AAAAB3NzaC1kc3MAAACBAP'
    const privateKey = await readFile(join(client.dir, 'laptop'), 'utf8')
    for (const bad of [
      'x',
      small,
      dsa,
      privateKey,
      `${line}\n${line}`,
      line.slice(0, 40),
      `command="x" ${line}`,
    ])
      expect(await code(add('bad', bad)), bad).toBe('invalid_argument')
    expect((await server.call('/v1/ssh-keys/nothing')).status).toBe(404)
  })
})

describe('the door', () => {
  test('has a key of its own that stays, and a port that may be taken', async () => {
    const { server, client } = bench
    const path = join(server.factory.stateDir, 'ssh-host-key')
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    const before = await server.ok('/v1/ssh')
    const other = await ServerProcess.start({ ssh: { port: before.port } })
    expect(other.lines.join('\n')).toMatch(/note +SSH is off: another program uses 127\.0\.0\.1:\d+/)
    expect((await other.call('/v1/ssh')).status).toBe(404)
    await other.cleanUp()
    await server.stop()
    await server.begin()
    expect((await server.ok('/v1/ssh')).hostKey).toBe(before.hostKey)
    expect(server.lines.join('\n')).toMatch(/ssh +ssh <sandbox>@127\.0\.0\.1 -p \d+/)
    await client.learnAddress()
    expect((await say(bench.key, 'box')).code).toBe(0)
  })

  test('closes to a place from which too many have failed, and to those that only stand there', async () => {
    const { port } = await bench.server.ok('/v1/ssh')
    // A place of its own for each try: the door stays closed to it.
    const place = `127.0.${randomInt(1, 255)}.${randomInt(1, 255)}`
    const knock = async () => {
      const socket = connect({ port, host: '127.0.0.1', localAddress: place })
      socket.on('error', () => {})
      const greeting = await Promise.race([once(socket, 'data'), once(socket, 'close').then(() => undefined)])
      return { socket, greeting: greeting?.toString() }
    }
    const knockAndLeave = async () => {
      const { socket, greeting } = await knock()
      socket.destroy()
      return greeting
    }
    const standing = await Promise.all(Array.from({ length: 40 }, knock))
    const greeted = standing.filter(({ greeting }) => greeting?.startsWith('SSH-2.0-dormouse'))
    expect(greeted.length).toBe(32)
    for (const { socket } of standing) socket.destroy()
    // Until the waiting connections have left, their number refuses new ones; after that, their failures do.
    await expect.poll(async () => knockAndLeave(), { timeout: 20_000, interval: 5 }).toBeDefined()
    for (let failures = 0; failures < 2 * FAILURES_BURST; failures++) await knockAndLeave()
    expect(await knockAndLeave()).toBe(undefined)
    expect((await say(bench.key, 'box', [`BindAddress=${place}`])).code).toBe(255)
    expect((await say(bench.key, 'box')).code).toBe(0)
  })
})
