import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CLIENTS, type Client, E2bServer } from './e2b-server.ts'

let e2b: E2bServer
beforeAll(async () => {
  e2b = await E2bServer.start()
})
afterAll(async () => {
  await e2b?.end()
})

describe.each(Object.entries(CLIENTS))('%s', (_name, load) => {
  let client: Client
  let sandbox: InstanceType<Client['Sandbox']>
  beforeAll(async () => {
    client = await load()
    sandbox = await client.Sandbox.create({ ...e2b.options, metadata: { purpose: 'test' }, envs: { A: '1' } })
  })
  afterAll(async () => {
    await sandbox?.kill()
  })

  test('creates an ordinary sandbox, which our own API lists, explains and forks', async () => {
    const { body } = await e2b.own(`/sandboxes/${sandbox.sandboxId}`)
    expect(body).toMatchObject({
      template: 'e2b',
      metadata: { purpose: 'test' },
      expires: { action: 'delete' },
    })
    const why = await e2b.own(`/sandboxes/${sandbox.sandboxId}/why`)
    expect(why.body.summary).toMatch(/It is deleted in .*, when its time is over\./)
    const fork = await e2b.own(`/sandboxes/${sandbox.sandboxId}/fork`, { method: 'POST', body: {} })
    expect(fork.status).toBe(201)
    await e2b.own(`/sandboxes/${fork.body.children[0].id}`, { method: 'DELETE' })
  })

  test('runs commands as "user", who may use sudo, with the environment of the sandbox', async () => {
    const result = await sandbox.commands.run('id -un; pwd; echo $A $HOME; sudo id -un; echo warning >&2')
    expect(result).toMatchObject({ exitCode: 0, stderr: 'warning\n' })
    expect(result.stdout).toBe('user\n/home/user\n1 /home/user\nroot\n')
    await expect(sandbox.commands.run('exit 3')).rejects.toMatchObject({
      name: 'CommandExitError',
      exitCode: 3,
    })
  })

  test('writes and reads files, as the user and where only root may write', async () => {
    await sandbox.files.write('a/b.txt', 'héllo')
    expect(await sandbox.files.read('/home/user/a/b.txt')).toBe('héllo')
    await sandbox.files.write('/etc/from-client', 'x')
    expect(await sandbox.files.getInfo('/etc/from-client')).toMatchObject({ owner: 'user', size: 1 })
    await expect(sandbox.files.read('missing')).rejects.toBeInstanceOf(client.NotFoundError)
  })

  test('sleeps in between without the client noticing', async () => {
    await e2b.own(`/sandboxes/${sandbox.sandboxId}/standby`, { method: 'POST', body: { tier: 'stored' } })
    expect((await sandbox.getInfo()).state).toBe('running')
    expect(await sandbox.isRunning()).toBe(true)
    expect((await sandbox.commands.run('cat a/b.txt')).stdout).toBe('héllo')
  })

  test('is found in the list by its metadata, and is not running once killed', async () => {
    const list = client.Sandbox.list({ ...e2b.options, query: { metadata: { purpose: 'test' } } })
    const ids = (await list.nextItems()).map(({ sandboxId }) => sandboxId)
    expect(ids).toContain(sandbox.sandboxId)
    const other = await client.Sandbox.create(e2b.options)
    expect(await other.kill()).toBe(true)
    expect(await other.kill()).toBe(false)
    expect(await other.isRunning()).toBe(false)
    await expect(other.commands.run('true')).rejects.toBeInstanceOf(client.SandboxNotFoundError)
    await expect(other.getInfo()).rejects.toBeInstanceOf(client.SandboxNotFoundError)
  })

  test('gets the errors of its own classes', async () => {
    await expect(client.Sandbox.create('no-such-template', e2b.options)).rejects.toBeInstanceOf(
      client.SandboxError,
    )
    const wrong = { ...e2b.options, apiKey: `e2b_${'0'.repeat(40)}` }
    await expect(client.Sandbox.create(wrong)).rejects.toBeInstanceOf(client.AuthenticationError)
    await expect(sandbox.commands.run('sleep 60', { timeoutMs: 300 })).rejects.toBeInstanceOf(
      client.TimeoutError,
    )
  })
})
