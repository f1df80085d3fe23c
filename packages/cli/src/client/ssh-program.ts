import { type StdioOptions, spawn } from 'node:child_process'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { BlockList, isIP } from 'node:net'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { onAbort } from '@dormouse/async'
import type { SshEndpoint } from 'dormouse'
import type { Call } from './call.ts'
import { CliError } from './cli-error.ts'

export type SshSettings = readonly (readonly [name: string, value: string])[]

/**
 * The address and host key of the server as options of `ssh`, so that `ssh` does not ask to trust an unknown host.
 * Throws `not_found` when the server accepts no SSH connections.
 */
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
    ['UserKnownHostsFile', `"${writeHostKey(io.env, alias, hostKey)}"`],
    ['GlobalKnownHostsFile', '/dev/null'],
    ['StrictHostKeyChecking', 'yes'],
  ]
}

/** The settings as values of `-o`. */
export function optionsOf(settings: SshSettings): string[] {
  return settings.map(([name, value]) => `${name}=${value}`)
}

/** Writes a separate file, so that the user's known_hosts stays unchanged. */
function writeHostKey(env: Call['io']['env'], alias: string, hostKey: string): string {
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

/** The address of the server's SSH port as seen from this machine. */
function hostOf({ host }: SshEndpoint, url: string): string {
  const server = new URL(url).hostname.replace(/^\[(.*)\]$/, '$1')
  if (host === '0.0.0.0' || host === '::') return server
  if (isLoopback(host) && !isLoopback(server) && server !== 'localhost')
    throw new CliError('server_unreachable', 'The server accepts SSH connections only from its own machine', {
      hint: 'Start the server with `--ssh-host 0.0.0.0`, or connect through its machine with `ssh -J`.',
    })
  return host
}

function isLoopback(host: string): boolean {
  const family = isIP(host)
  return family !== 0 && loopback.check(host, family === 6 ? 'ipv6' : 'ipv4')
}

/** Runs `ssh` on this terminal; Ctrl-C reaches it directly. Returns its exit status. */
export async function runSsh(
  { signal, io }: Call,
  args: readonly string[],
  { stdio = 'inherit' }: { stdio?: StdioOptions } = {},
): Promise<number> {
  const child = spawn('ssh', args, { stdio, env: { ...io.env } })
  using _listener = onAbort(signal, () => {
    if (signal.reason !== 'SIGINT') child.kill(signal.reason as NodeJS.Signals)
  })
  return await new Promise((resolve, reject) => {
    child.once('error', (cause: NodeJS.ErrnoException) => {
      const isMissing = cause.code === 'ENOENT'
      const hint = isMissing ? 'Install the OpenSSH client.' : ''
      reject(
        new CliError('not_found', isMissing ? 'The program `ssh` is not installed' : cause.message, { hint }),
      )
    })
    child.once('exit', (code) => resolve(code ?? FAILED))
  })
}

/** The status with which `ssh` reports its own failures. */
const FAILED = 255
