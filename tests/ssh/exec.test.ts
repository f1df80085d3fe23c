import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { SshClient, sha256 } from './ssh-client.ts'

const MIB = 1024 ** 2

let server: ServerProcess
let client: SshClient
let key: string
beforeAll(async () => {
  server = await ServerProcess.start()
  client = await SshClient.open(server)
  key = await client.addKey('laptop')
  await server.ok('/v1/sandboxes', { json: { name: 'box' } })
})
afterAll(async () => {
  await client?.close()
  await server?.cleanUp()
})

const exec = (command: string, options: Parameters<SshClient['ssh']>[2] = {}) =>
  client.ssh(key, ['box@127.0.0.1', command], options)

describe('a command over SSH', () => {
  test('has stdout and stderr apart, and its exit code', async () => {
    const done = await exec('echo out; echo err >&2; exit 3')
    expect(done).toMatchObject({ code: 3, stderr: 'err\n' })
    expect(done.stdout.toString()).toBe('out\n')
    expect((await exec('true')).code).toBe(0)
    expect((await exec('exit 255')).code).toBe(255)
  })

  test('ended by a signal is told as one', async () => {
    const done = await exec('kill -TERM $$', { settings: ['LogLevel=INFO'] })
    expect(done.code).toBe(255)
    expect((await exec('bash -c "kill -KILL \\$\\$"; echo $?')).stdout.toString()).toBe('137\n')
  })

  test('gets 50 MB of any bytes and gives them back as they were', async () => {
    const sent = randomBytes(50 * MIB)
    const [there, back] = await Promise.all([
      exec('sha256sum', { input: sent }),
      exec('cat', { input: sent }),
    ])
    expect(there.stdout.toString().slice(0, 64)).toBe(sha256(sent))
    expect(sha256(back.stdout)).toBe(sha256(sent))
    expect([there.code, back.code]).toEqual([0, 0])
  })
})
