import { type StdioOptions, spawn } from 'node:child_process'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { BlockList, isIP } from 'node:net'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import type { SshEndpoint } from 'dormouse'
import type { Call } from './call.ts'
import { Problem } from './problem.ts'

export type SshSettings = readonly (readonly [name: string, value: string])[]

/** Where the server is and what its key is, for `ssh`: nothing has to be trusted at first sight. Throws `not_found` where it takes no connections. */
export async function sshSettings(call: Call, user: string): Promise<SshSettings> {
  const { client, signal, io } = call
  const endpoint = await client.sshKeys.endpoint({ signal })
  const { port, hostKey } = endpoint
  const host = hostOf(endpoint, (await client.http.address()).url)
  const alias = `dormouse-${host.replaceAll(':', '_')}-${port}`
  return [
    ['HostName', host],
    ['Port', String(port)],
    ['User', user],
    ['HostKeyAlias', alias],
    // Quoted: a path may have spaces.
    ['UserKnownHostsFile', `"${keepHostKey(io.env, alias, hostKey)}"`],
    ['GlobalKnownHostsFile', '/dev/null'],
    ['StrictHostKeyChecking', 'yes'],
  ]
}

/** As they stand behind `-o`. */
export function optionsOf(settings: SshSettings): string[] {
  return settings.map(([name, value]) => `${name}=${value}`)
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

/** The terminal is its own: Ctrl-C reaches it without us. Answers its status. */
export async function runSsh(
  { signal, io }: Call,
  args: readonly string[],
  { stdio = 'inherit' }: { stdio?: StdioOptions } = {},
): Promise<number> {
  const child = spawn('ssh', args, { stdio, env: { ...io.env } })
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
