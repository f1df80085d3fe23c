import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { useCommandLine } from '../cli/command-line.ts'
import { SshClient } from './ssh-client.ts'

const cli = useCommandLine()
let client: SshClient
let env: Record<string, string>
beforeAll(async () => {
  client = await SshClient.open(cli.server)
  env = { HOME: client.dir, SSH_AUTH_SOCK: '' }
  await cli.json(['create', 'box'])
})
afterAll(() => client?.close())

describe('dormouse ssh-key', () => {
  test('adds the usual key of its user, by the name in its comment, and lists it', async () => {
    const none = await cli.run(['ssh-key', 'add'], { env })
    expect([none.status, none.stderr]).toEqual([1, expect.stringContaining('There is no public key')])
    mkdirSync(join(client.dir, '.ssh'), { mode: 0o700 })
    client.keygen('.ssh/id_ed25519', '-t', 'ed25519', '-C', 'ana b@laptop')
    const added = await cli.json(['ssh-key', 'add'], { env })
    expect(added).toMatchObject({ name: 'ana-b-laptop', type: 'ssh-ed25519', confirmed: true })
    const piped = readFileSync(`${client.keygen('other')}.pub`, 'utf8')
    const waiting = await cli.run(['ssh-key', 'add', '-', '--name', 'piped'], { env, input: piped })
    expect([waiting.status, waiting.stderr]).toEqual([0, expect.stringContaining('ssh-key confirm piped')])
    const wrong = await cli.run(['ssh-key', 'confirm', 'piped', '-i', join(client.dir, '.ssh/id_ed25519')], {
      env,
    })
    expect([wrong.status, wrong.stderr]).toEqual([1, expect.stringContaining('until it is confirmed')])
    expect(
      await cli.json(['ssh-key', 'confirm', 'piped', '-i', join(client.dir, 'other')], { env }),
    ).toMatchObject({
      ...{ name: 'piped', confirmed: true },
    })
    const { stdout } = await cli.run(['ssh-key', 'ls'])
    expect(stdout).toMatch(/^NAME +TYPE +FINGERPRINT +CONFIRMED +ADDED\n/)
    expect(stdout).toContain(added.fingerprint)
    expect(await cli.json(['ssh-key', 'rm', 'piped'])).toEqual({ deleted: ['piped'] })
    expect((await cli.json(['ssh-key', 'ls'])).sshKeys).toEqual([added])
    const secret = await cli.run(['ssh-key', 'add', join(client.dir, '.ssh/id_ed25519')], { env })
    expect(secret.stderr).toMatch(/is a private key/)
  })
})

describe('dormouse ssh', () => {
  // OpenSSH takes the home from the user database, not from HOME.
  const identity = () => ['-i', join(client.dir, '.ssh/id_ed25519'), '-o', 'BatchMode=yes']

  test('runs a command with the key of the server known beforehand, and ends with its status', async () => {
    const ran = await cli.run(['ssh', ...identity(), 'bo', '--', 'echo', 'out;', 'cat;', 'exit', '7'], {
      env,
      input: 'in',
    })
    expect(ran).toEqual({ status: 7, stdout: 'out\nin', stderr: '' })
    const { command } = await cli.json(['ssh', 'box', '-L', '8080:localhost:80'], { env })
    expect(command).toEqual(
      expect.arrayContaining(['ssh', '-L', '8080:localhost:80', 'StrictHostKeyChecking=yes']),
    )
    expect((await cli.run(['ssh', 'nothing'], { env })).stderr).toMatch(/There is no sandbox "nothing"/)
  })

  test('opens a shell in a terminal', async () => {
    const terminal = cli.terminal(['ssh', ...identity(), 'box'])
    terminal.type('tty; exit 4\r')
    await terminal.shows(/\/dev\/pts\/\d+/)
    expect(await terminal.status()).toBe(4)
  })

  test('prints a configuration that scp and others work with', async () => {
    const { stdout } = await cli.run(['ssh', 'box', '--config'], { env })
    expect(stdout).toMatch(/^Host box\.dormouse\n( {2}\S+ \S+\n)+$/)
    const file = join(client.dir, 'config')
    writeFileSync(file, `${stdout}  IdentityFile ${client.dir}/.ssh/id_ed25519\n  BatchMode yes\n`)
    const copied = await client.run('scp', ['-F', file, file, 'box.dormouse:/root/copied'])
    expect(copied).toMatchObject({ code: 0, stderr: '' })
    expect((await cli.run(['exec', 'box', '--', 'cat', '/root/copied'])).stdout).toContain(
      'Host box.dormouse',
    )
  })

  test('without a key that was added says what to do', async () => {
    await cli.run(['ssh-key', 'rm', 'ana-b-laptop'])
    const { status, stderr } = await cli.run(['ssh', 'box'], { env })
    expect([status, stderr]).toEqual([1, expect.stringContaining('dormouse ssh-key add')])
  })
})
