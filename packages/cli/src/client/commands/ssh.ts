import { spawn } from 'node:child_process'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { BlockList, isIP } from 'node:net'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Sandbox, SshEndpoint } from 'dormouse'
import type { Call } from '../call.ts'
import { Problem } from '../problem.ts'
import { shortName } from './ls.ts'

interface SshFlags {
  readonly identity?: string
  readonly forward?: readonly string[]
  readonly option?: readonly string[]
  readonly terminal?: boolean
  readonly config?: boolean
}

/** The `ssh` of this machine, told where the sandbox is and what the server's key is: nothing has to be trusted at first sight. */
export async function ssh(
  call: Call,
  ref: string,
  command: readonly string[],
  flags: SshFlags,
): Promise<number | undefined> {
  const sandbox = await call.sandbox(ref)
  const { client, signal } = call
  const endpoint = await client.sshKeys.endpoint({ signal })
  const { url } = await client.http.address()
  const host = hostOf(endpoint, url)
  const settings = settingsOf(call, { endpoint, host, sandbox })
  if (flags.config === true) {
    call.answer({ host: aliasOf(sandbox), settings }, configOf(sandbox, settings))
    return undefined
  }
  const keys = await client.sshKeys.list({ signal }).all()
  if (keys.length === 0)
    throw new Problem('unauthorized', 'No SSH key has been added yet', {
      hint: '`dormouse ssh-key add` adds yours.',
    })
  const args = [
    ...(flags.identity === undefined ? [] : ['-i', flags.identity]),
    ...(flags.forward ?? []).flatMap((forward) => ['-L', forward]),
    ...(flags.terminal === true ? ['-t'] : []),
    ...[...(flags.option ?? []), ...settings.map(([name, value]) => `${name}=${value}`)].flatMap((option) => [
      '-o',
      option,
    ]),
    aliasOf(sandbox),
    ...(command.length === 0 ? [] : ['--', ...command]),
  ]
  if (call.isJson) {
    call.answer({ command: ['ssh', ...args] }, '')
    return undefined
  }
  return run(call, args)
}

type Settings = readonly (readonly [name: string, value: string])[]

function settingsOf(
  { io }: Call,
  { endpoint, host, sandbox }: { endpoint: SshEndpoint; host: string; sandbox: Sandbox },
): Settings {
  const { port, hostKey } = endpoint
  const alias = `dormouse-${host.replaceAll(':', '_')}-${port}`
  return [
    ['HostName', host],
    ['Port', String(port)],
    ['User', sandbox.id],
    ['HostKeyAlias', alias],
    // Quoted: a path may have spaces.
    ['UserKnownHostsFile', `"${keepHostKey(io.env, alias, hostKey)}"`],
    ['GlobalKnownHostsFile', '/dev/null'],
    ['StrictHostKeyChecking', 'yes'],
  ]
}

function configOf(sandbox: Sandbox, settings: Settings): string {
  const lines = settings.map(([name, value]) => `  ${name} ${value}\n`)
  return `Host ${aliasOf(sandbox)}\n${lines.join('')}`
}

function aliasOf(sandbox: Sandbox): string {
  return `${shortName(sandbox)}.dormouse`
}

/** In a file of its own: what `ssh` knows of other hosts stays as it is. */
function keepHostKey(env: Call['io']['env'], alias: string, hostKey: string): string {
  const state = env['XDG_STATE_HOME'] || join(env['HOME'] || homedir(), '.local/state')
  const path = join(state, 'dormouse/ssh', alias)
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const draft = `${path}.${process.pid}`
  writeFileSync(draft, `${alias} ${hostKey}\n`, { mode: 0o600 })
  renameSync(draft, path)
  return path
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/** Where this machine reaches it. */
function hostOf({ host }: SshEndpoint, url: string): string {
  const server = new URL(url).hostname.replace(/^\[(.*)\]$/, '$1')
  if (host === '0.0.0.0' || host === '::') return server
  if (isLoopback(host) && !isLoopback(server) && server !== 'localhost')
    throw new Problem('server_unreachable', 'The server takes SSH connections of its own machine only', {
      hint: 'There, start it with `--ssh-host 0.0.0.0`; or go through that machine with `ssh -J`.',
    })
  return host
}

function isLoopback(host: string): boolean {
  const family = isIP(host)
  return family !== 0 && loopback.check(host, family === 6 ? 'ipv6' : 'ipv4')
}

/** The terminal is its own: Ctrl-C reaches it without us. */
async function run({ signal, io }: Call, args: readonly string[]): Promise<number> {
  const child = spawn('ssh', args, { stdio: 'inherit', env: { ...io.env } })
  const stop = () => {
    if (signal.reason !== 'SIGINT') child.kill(signal.reason as NodeJS.Signals)
  }
  signal.addEventListener('abort', stop, { once: true })
  return new Promise((resolve, reject) => {
    child.once('error', (cause: NodeJS.ErrnoException) => {
      const isMissing = cause.code === 'ENOENT'
      const hint = isMissing ? 'Install the OpenSSH client.' : ''
      reject(new Problem('not_found', isMissing ? 'There is no `ssh` here' : cause.message, { hint }))
    })
    child.once('exit', (code) => resolve(code ?? FAILED))
  })
}

/** As `ssh` says of itself. */
const FAILED = 255
