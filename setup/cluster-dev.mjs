import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseFlags, refuseArguments, UsageError } from './arguments.mjs'
import { debianPackagesStep } from './debian-packages.mjs'

const HOST = fileURLToPath(new URL('cluster-dev-host.mjs', import.meta.url))
const NODES_MAX = 9
const NATS_PORT = 4222
const FIRST_PORT = 7070

/** What a cluster needs besides what a host needs. */
export const natsServer = debianPackagesStep({
  id: 'nats-server',
  title: 'NATS',
  packages: [['nats-server', 'nats-server']],
})

/**
 * Reads `cluster dev --nodes N [--port N] [--nats-port N]`.
 * @param {readonly string[]} args
 */
export function parseClusterDev(args) {
  const [action, ...rest] = args
  if (action !== 'dev')
    throw new UsageError(
      '`cluster` needs one of `dev`, `token`, `join TOKEN`, `backup FILE` or `restore FILE`',
    )
  const { flags, positionals } = parseFlags(rest, {
    '--nodes': 'value',
    '--port': 'value',
    '--nats-port': 'value',
  })
  refuseArguments(positionals)
  return {
    nodes: numberOf(flags, '--nodes', 3, NODES_MAX),
    port: numberOf(flags, '--port', undefined, 65_000),
    natsPort: numberOf(flags, '--nats-port', undefined, 65_000),
  }
}

/**
 * Runs NATS and some hosts on loopback until `signal` aborts. Their data is below `cluster-dev` in the data directory;
 * templates and tools are those of the data directory itself. Without ports it takes the first free ones.
 * @param {{ dataDir: string, signal: AbortSignal, print: (line: string) => void, natsPort: number | undefined,
 *   port: number | undefined, nodes: number }} options
 */
export async function runClusterDev({ dataDir, signal, print, nodes, port, natsPort: wantedNatsPort }) {
  const directory = join(dataDir, 'cluster-dev')
  mkdirSync(directory, { recursive: true, mode: 0o711 })
  const keyFile = join(directory, 'cluster.key')
  if (!existsSync(keyFile)) writeFileSync(keyFile, randomBytes(32).toString('base64'), { mode: 0o600 })
  const natsPort = wantedNatsPort ?? (await firstFreePort(NATS_PORT))
  const url = `nats://127.0.0.1:${natsPort}`
  const listen = ['--addr', '127.0.0.1', '--port', String(natsPort)]
  const store = ['--jetstream', '--store_dir', join(directory, 'nats')]
  const nats = start('nats-server', [...listen, ...store], ['ignore', 'ignore', 'ignore'])
  print(`nats     ${url}`)
  /** @type {import('node:child_process').ChildProcess[]} */
  const hosts = []
  const ended = once(nats, 'exit').then(() => {
    if (!signal.aborted)
      throw new UsageError(`nats-server has ended: does another program use port ${natsPort}?`)
  })
  ended.catch(() => {})
  try {
    for (let index = 0; index < nodes; index += 1) {
      const own = port === undefined ? await firstFreePort(FIRST_PORT) : port + index
      const args = [join(directory, `host-${index + 1}`), dataDir, url, keyFile, String(own)]
      const host = start(process.execPath, [HOST, ...args], ['ignore', 'pipe', 'inherit'])
      hosts.push(host)
      await Promise.race([untilReady(host, (line) => print(`host-${index + 1}   ${line}`)), ended])
    }
    print('Ctrl-C puts everything to standby and ends it.')
    // The others continue what an ended host had: trying that out is what this is for.
    const allEnded = Promise.all(hosts.map((host, index) => untilEnded(host, `host-${index + 1}`, print)))
    if (!signal.aborted) await Promise.race([once(signal, 'abort'), ended, allEnded])
  } finally {
    await Promise.all(hosts.map((host) => end(host)))
    await end(nats)
  }
}

/**
 * @param {string} program
 * @param {readonly string[]} args
 * @param {import('node:child_process').StdioOptions} stdio
 */
function start(program, args, stdio) {
  // A group of its own: Ctrl-C reaches this process, which ends the others in order.
  return spawn(program, args, { stdio, detached: true })
}

/**
 * @param {import('node:child_process').ChildProcess} host
 * @param {(line: string) => void} print
 */
async function untilReady(host, print) {
  if (host.stdout === null) throw new Error('a host has no output')
  const lines = createInterface({ input: host.stdout })
  const isReady = new Promise((resolve, reject) => {
    lines.on('line', (line) => {
      if (/address|API key/.test(line)) print(line.trim())
      if (line.startsWith('Ctrl-C')) resolve(undefined)
    })
    host.once('exit', () => reject(new UsageError('a host did not start; its message is above')))
  })
  await isReady
}

/**
 * @param {import('node:child_process').ChildProcess} host
 * @param {string} name
 * @param {(line: string) => void} print
 */
async function untilEnded(host, name, print) {
  if (host.exitCode === null && host.signalCode === null) await once(host, 'exit')
  print(`${name}   has ended`)
}

/** @param {import('node:child_process').ChildProcess} child */
async function end(child) {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  await exited
}

/**
 * A host that runs already has the usual port.
 * @param {number} from
 */
async function firstFreePort(from) {
  for (let port = from; ; port += 1) {
    const server = createServer().listen(port, '127.0.0.1')
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    )
    if (!isFree) continue
    server.close()
    await once(server, 'close')
    return port
  }
}

/**
 * @template {number | undefined} Otherwise
 * @param {Readonly<Record<string, string>>} flags
 * @param {string} name
 * @param {Otherwise} otherwise
 * @param {number} max
 */
function numberOf(flags, name, otherwise, max) {
  const text = flags[name]
  if (text === undefined) return otherwise
  const value = Number(text)
  if (Number.isInteger(value) && value >= 1 && value <= max) return value
  throw new UsageError(`${name} must be a number from 1 to ${max} (saw "${text}")`)
}
