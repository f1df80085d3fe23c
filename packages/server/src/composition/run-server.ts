import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { DormouseError } from '@dormouse/contracts'
import { DEFAULT_TEMPLATE } from '@dormouse/contracts/http'
import { LinuxEngine } from '@dormouse/engine-linux'
import { examineHost, findCriu, type HostReport } from '@dormouse/engine-linux/setup'
import { prepareClient } from '../access/first-key.ts'
import { createApp } from '../api/app.ts'
import { pageRoutes } from '../api/page/page-routes.ts'
import type { App } from '../api/route.ts'
import { localUrl, readTls } from '../config/bind.ts'
import type { ServerConfig } from '../config/config.ts'
import { openDataDirectory } from '../data-directory/open-data-directory.ts'
import { openE2b } from '../e2b/open-e2b.ts'
import { boundGarbage } from '../host/bound-garbage.ts'
import { IdleTrim } from '../host/idle-trim.ts'
import { ROOM_FOR_START, SpaceReserve } from '../host/space-reserve.ts'
import { openLog, type ServerLog } from '../log.ts'
import { openMcp } from '../mcp/open-mcp.ts'
import { type OpenedSsh, openSsh } from '../ssh/open-ssh.ts'
import { VERSION } from '../version.ts'
import { endInTime, logCrashes } from './end-in-time.ts'
import { EnginePair } from './engine-pair.ts'
import { linuxBuilder } from './linux-builder.ts'
import { openMicrovm } from './open-microvm.ts'
import { openServer, type ServerCore } from './open-server.ts'
import { serverInsight } from './server-insight.ts'
import { reportLines, type ServerReport } from './server-report.ts'

export interface RunServer {
  readonly config: ServerConfig
  /** When it aborts, the server puts every sandbox to standby and ends. */
  readonly signal: AbortSignal
  /** Gets lines for people. */
  readonly print?: (line: string) => void
  /** Gets the same for programs. */
  readonly tell?: (report: ServerReport) => void
  /** Where templates and CRIU are, if not in the data directory: tests share those of the host. */
  readonly toolsDir?: string
  /** Whether it builds the built-in templates that are missing, in the background. */
  readonly buildsTemplates?: boolean
}

/**
 * Runs a server until `signal` aborts, then puts its sandboxes to standby. Refuses a data directory in use, and a host
 * that cannot run sandboxes.
 */
export async function runServer({ config, signal, toolsDir, ...listeners }: RunServer): Promise<void> {
  const { dataDir } = config
  boundGarbage()
  using _trim = new IdleTrim()
  const tell = (report: ServerReport) => {
    listeners.tell?.(report)
    for (const line of reportLines(report)) listeners.print?.(line)
  }
  await using _directory = await openDataDirectory(dataDir)
  const reserve = new SpaceReserve(dataDir)
  // The server must start on a full disk, so that callers can delete things.
  reserve.makeRoom(ROOM_FOR_START)
  const templatesDir = toolsDir ?? dataDir
  const [host, criu] = await Promise.all([examineHost(templatesDir), findCriu(templatesDir)])
  refuseUnfitHost(host)
  const isTerminal = process.stderr.isTTY === true
  const serverLog = openLog({ level: config.logLevel, dataDir, isTerminal })
  const { log } = serverLog
  using _end = endInTime(signal, config.shutdownTimeoutMs, log)
  using _crash = logCrashes(log)
  await using linux = await LinuxEngine.open({
    ...{ dataDir: templatesDir, stateDir: dataDir },
    hostMemoryBytes: config.minFreeMemoryBytes,
    log,
  })
  const microvm = await openMicrovm({ config, templatesDir, log })
  await using _microvm = microvm
  if (microvm !== undefined) linux.shareVolumes(microvm)
  const engine = microvm === undefined ? linux : new EnginePair(linux, microvm)
  const builder = linuxBuilder(linux, templatesDir)
  await using core = await openServer({ config, engine, builder, reserve, log })
  const hostPaths = [dataDir, templatesDir, '/run/dormouse']
  const endsAt = await serve(
    { config, core, serverLog, hostPaths, templatesDir, signal },
    ({ url, ssh, apiKey }) => {
      tell({
        ...{ type: 'ready', version: VERSION, url, ssh: ssh.endpoint, dataDir, criu: criu?.version },
        ...{ sandboxes: core.recovery, logPath: serverLog.path, apiKey, notes: notesOf(ssh, host) },
      })
      log.info({ url, recovery: core.recovery }, 'ready')
      // Only makes the first create faster. A create from a broken template reports the error.
      linux
        .expectCreate(DEFAULT_TEMPLATE)
        .catch((err: unknown) => log.warn({ err }, 'no sandbox was restored ahead of the first create'))
      if (listeners.buildsTemplates === true && config.builds.builtIn)
        core
          .buildBuiltIns(signal)
          .catch((err: unknown) => log.error({ err }, 'the built-in templates could not be built'))
    },
  )
  const { asleep, left, underWay } = await core.sleep(Math.max(0, endsAt - performance.now()))
  tell({ type: 'ended', asleep, left })
  log.info({ asleep, left }, 'ended')
  // Another server must not get the data directory while a snapshot is written into it: the lock ends with the process.
  if (underWay > 0) process.exit(0)
}

interface Serve {
  readonly config: ServerConfig
  readonly core: ServerCore
  readonly serverLog: ServerLog
  readonly hostPaths: readonly string[]
  readonly templatesDir: string
  readonly signal: AbortSignal
}

interface Served {
  readonly url: string
  readonly ssh: OpenedSsh
  readonly apiKey: string | undefined
}

/** Serves HTTP, MCP and SSH until `signal` aborts. Returns when sandboxes must be asleep, by `performance.now()`. */
async function serve(
  { config, core, serverLog, hostPaths, templatesDir, signal }: Serve,
  onReady: (served: Served) => void,
): Promise<number> {
  const { log, options: logger } = serverLog
  const health = { status: 'ok' as 'ok' | 'stopping' }
  const mcp = openMcp(config, log)
  let ssh: OpenedSsh | undefined
  const check = () => ({ status: health.status, version: VERSION })
  const server = serverInsight({ dataDir: config.dataDir, templatesDir, lines: serverLog.lines })
  const services = { ...core.services, health: { check }, server }
  const app = await createApp(services, {
    logger,
    tls: config.tls && readTls(config.tls),
    hostPaths,
    origins: config.cors.origins,
    moreRoutes: [mcp.routes, pageRoutes()],
    cluster: core.cluster,
    beforeAnswer: core.shared?.flush,
    askOthers: core.shared?.askOthers,
  })
  openE2b(app, services, core.e2b)
  try {
    const url = await listen(app, config)
    await core.cluster?.announce(config.cluster.address ?? url)
    await mcp.open(app, url)
    const { sandboxes } = core.services
    ssh = await openSsh({
      ...{ config, service: core.ssh, access: core.access, sandboxes, hostPaths, log },
      cluster: core.shared?.ssh,
    })
    await core.cluster?.announceSsh(ssh.hop)
    const { dataDir } = config
    const isNewInCluster = core.cluster?.isNew === true
    onReady({ url, ssh, apiKey: prepareClient({ access: core.access, dataDir, url, isNewInCluster }) })
    await untilAborted(signal)
    health.status = 'stopping'
    return performance.now() + config.shutdownTimeoutMs
  } finally {
    mcp.end()
    await ssh?.[Symbol.asyncDispose]()
    await app.close()
    await mcp.close()
  }
}

function notesOf(ssh: OpenedSsh, { checks }: HostReport): string[] {
  const lacks = checks.filter(({ status }) => status === 'warn')
  return [
    ...(ssh.problem === undefined ? [] : [`SSH is off: ${ssh.problem}`]),
    ...lacks.map(({ title, found }) => `${title}: ${found}`),
  ]
}

const LISTEN_HINTS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'Another program has this port: choose one with --port.',
  EADDRNOTAVAIL: 'This machine does not have this address: choose one of its own with --host.',
}

async function listen(app: App, { host, port, ...config }: ServerConfig): Promise<string> {
  try {
    await app.listen({ host, port })
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const hint = code === undefined ? undefined : LISTEN_HINTS[code]
    throw new DormouseError('setup_failed', `The server cannot listen on ${host}:${port}: ${code}`, {
      ...(hint !== undefined && { hint }),
      cause,
    })
  }
  return localUrl({ ...config, host }, (app.server.address() as AddressInfo).port)
}

function refuseUnfitHost({ canRunSandboxes, checks }: HostReport): void {
  if (canRunSandboxes) return
  const failed = checks.filter(({ status }) => status === 'fail')
  throw new DormouseError(
    'host_unsupported',
    `Sandboxes cannot run here: ${failed.map(({ title, found }) => `${title}: ${found}`).join('; ')}`,
    { hint: failed.map(({ mend }) => mend).join(' '), details: { checks: failed.map(({ id }) => id) } },
  )
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}
