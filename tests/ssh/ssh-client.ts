import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { rmSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { Terminal } from '../cli/command-line.ts'
import { ServerProcess } from '../server/server-process.ts'

export interface SshBench {
  readonly server: ServerProcess
  readonly client: SshClient
  /** Of the first API key. */
  readonly key: string
  /** `ssh box@… command`. */
  exec(command: string, options?: Parameters<SshClient['ssh']>[2]): Promise<Finished>
}

/** A real server with a sandbox `box`, and a client that may use it. */
export function useSsh(config: object = {}): SshBench {
  let server: ServerProcess
  let client: SshClient
  let key: string
  beforeAll(async () => {
    server = await ServerProcess.start(config)
    client = await SshClient.open(server)
    key = await client.addKey('laptop')
    await server.ok('/v1/sandboxes', { json: { name: 'box' } })
  })
  afterAll(async () => {
    await client?.close()
    await server?.cleanUp()
  })
  return {
    get server() {
      return server
    },
    get client() {
      return client
    },
    get key() {
      return key
    },
    exec: (command, options) => client.ssh(key, ['box@127.0.0.1', command], options),
  }
}

export interface Finished {
  readonly code: number
  readonly stdout: Buffer
  readonly stderr: string
}

/** The real OpenSSH client, with keys and files of its own. */
export class SshClient {
  readonly dir: string
  readonly server: ServerProcess
  #port = 0
  readonly #started: ChildProcess[] = []

  private constructor(server: ServerProcess, dir: string) {
    this.server = server
    this.dir = dir
  }

  static async open(server: ServerProcess): Promise<SshClient> {
    const client = new SshClient(server, await mkdtemp(join(tmpdir(), 'dormouse-ssh-')))
    await client.learnAddress()
    return client
  }

  get port(): number {
    return this.#port
  }

  /** Where the server listens now, and its key. */
  async learnAddress(): Promise<void> {
    const { port, hostKey } = await this.server.ok('/v1/ssh')
    this.#port = port
    await writeFile(join(this.dir, 'known_hosts'), `dormouse-test ${hostKey}\n`)
  }

  /** Makes a key pair, in place of one that is there already; answers the path of the private one. */
  keygen(name: string, ...options: string[]): string {
    const path = join(this.dir, name)
    for (const old of [path, `${path}.pub`]) rmSync(old, { force: true })
    const args = [
      '-q',
      '-N',
      '',
      '-C',
      `${name}@test`,
      '-f',
      path,
      ...(options.length > 0 ? options : ['-t', 'ed25519']),
    ]
    const { status, stderr } = spawnSync('ssh-keygen', args, { encoding: 'utf8' })
    if (status !== 0) throw new Error(stderr)
    return path
  }

  /** Makes one and has the server know it. */
  async addKey(name: string, { key = this.server.key, options = [] as string[] } = {}): Promise<string> {
    const path = this.keygen(name, ...options)
    await this.server.call(`/v1/ssh-keys/${name}`, { method: 'DELETE', key })
    const { confirmAs } = await this.addPending(name, path, key)
    const confirmed = await this.ssh(path, [`${confirmAs}@127.0.0.1`])
    if (confirmed.code !== 0) throw new Error(confirmed.stderr)
    return path
  }

  /** Has the server know a key, which is not confirmed by its holder yet. */
  async addPending(name: string, path: string, key: string): Promise<{ confirmAs: string }> {
    const publicKey = (await readFile(`${path}.pub`, 'utf8')).trim()
    return this.server.ok('/v1/ssh-keys', { json: { name, publicKey }, key })
  }

  /** For ssh, scp, sftp and rsync alike. */
  options(identity: string, ...more: string[]): string[] {
    // Of two the first wins.
    const settings = [
      ...more,
      ...['BatchMode=yes', 'IdentitiesOnly=yes', 'IdentityAgent=none', 'StrictHostKeyChecking=yes'],
      ...[
        'HostKeyAlias=dormouse-test',
        `UserKnownHostsFile=${this.dir}/known_hosts`,
        'GlobalKnownHostsFile=/dev/null',
      ],
      ...[`Port=${this.#port}`, 'LogLevel=ERROR'],
    ]
    return ['-F', 'none', '-i', identity, ...settings.flatMap((setting) => ['-o', setting])]
  }

  /** `ssh` with these arguments behind the options. */
  start(
    identity: string,
    args: readonly string[],
    options: SpawnOptions & { settings?: string[] } = {},
  ): ChildProcess {
    const { settings = [], ...rest } = options
    const child = spawn('ssh', [...this.options(identity, ...settings), ...args], { stdio: 'pipe', ...rest })
    this.#started.push(child)
    return child
  }

  ssh(
    identity: string,
    args: readonly string[],
    { input, settings = [] }: { input?: string | Uint8Array; settings?: string[] } = {},
  ): Promise<Finished> {
    return finish(this.start(identity, args, { settings }), input ?? '')
  }

  /** In a real terminal. */
  terminal(identity: string, args: readonly string[]): Terminal {
    const env = { ...process.env, TERM: 'xterm-256color', LC_TIME: 'C.UTF-8' } as Record<string, string>
    return new Terminal([...this.options(identity, 'SendEnv=LC_*'), ...args], env, 'ssh')
  }

  /** scp, sftp or rsync. */
  run(program: string, args: readonly string[], input: string | Uint8Array = ''): Promise<Finished> {
    const child = spawn(program, args, { stdio: 'pipe' })
    this.#started.push(child)
    return finish(child, input)
  }

  async close(): Promise<void> {
    for (const child of this.#started)
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    await rm(this.dir, { recursive: true, force: true })
  }
}

export function finish(child: ChildProcess, input?: string | Uint8Array): Promise<Finished> {
  const stdout: Buffer[] = []
  let stderr = ''
  child.stdout?.on('data', (piece: Buffer) => stdout.push(piece))
  child.stderr?.on('data', (piece: Buffer) => {
    stderr += piece
  })
  // What it does not want to read any more is no failure of the test.
  child.stdin?.on('error', () => {})
  if (input !== undefined) child.stdin?.end(input)
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve({ code: code ?? -1, stdout: Buffer.concat(stdout), stderr }))
  })
}

export function sha256(data: Uint8Array): string {
  return createHash('sha256').update(data).digest('hex')
}
