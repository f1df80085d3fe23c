import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { DormouseError } from '@dormouse/contracts'
import { DEFAULT_TEMPLATE } from '@dormouse/contracts/http'
import { LinuxEngine } from '@dormouse/engine-linux'
import { examineHost, findCriu, type HostReport } from '@dormouse/engine-linux/setup'
import { prepareClient } from '../access/first-key.ts'
import { createApp } from '../api/app.ts'
import type { App } from '../api/route.ts'
import { localUrl, readTls } from '../config/bind.ts'
import type { ServerConfig } from '../config/config.ts'
import { openDataDirectory } from '../data-directory/open-data-directory.ts'
import { boundGarbage } from '../host/bound-garbage.ts'
import { ROOM_FOR_START, SpaceReserve } from '../host/space-reserve.ts'
import { openLog } from '../log.ts'
import { openMcp } from '../mcp/open-mcp.ts'
import { type OpenedSsh, openSsh } from '../ssh/open-ssh.ts'
import { VERSION } from '../version.ts'
import { endInTime, noteCrash } from './end-in-time.ts'
import { linuxBuilder } from './linux-builder.ts'
import { openServer } from './open-server.ts'
import { newsLines, type ServerNews } from './server-news.ts'

export interface RunServer {
  readonly config: ServerConfig
  /** Aborting it ends the server in order: every sandbox goes to standby first. */
  readonly signal: AbortSignal
  /** For people. */
  readonly print?: (line: string) => void
  /** The same for programs. */
  readonly tell?: (news: ServerNews) => void
  /** Where templates and CRIU are, when they are not in the data directory: tests share those of a host. */
  readonly toolsDir?: string
}

/** Resolves when `signal` has ended it. Refuses a data directory in use and a host that cannot run sandboxes. */
export async function runServer({ config, signal, toolsDir, ...listeners }: RunServer): Promise<void> {
  const { dataDir } = config
  boundGarbage()
  const tell = (news: ServerNews) => {
    listeners.tell?.(news)
    for (const line of newsLines(news)) listeners.print?.(line)
  }
  await using _directory = await openDataDirectory(dataDir)
  const reserve = new SpaceReserve(dataDir)
  // On a full disk a server must start, or nobody could delete anything.
  reserve.makeRoom(ROOM_FOR_START)
  const templatesDir = toolsDir ?? dataDir
  const [host, criu] = await Promise.all([examineHost(templatesDir), findCriu(templatesDir)])
  refuseUnfitHost(host)
  const {
    log,
    options: logger,
    path: logPath,
  } = openLog({
    level: config.logLevel,
    dataDir,
    isTerminal: process.stderr.isTTY === true,
  })
  using _end = endInTime(signal, config.shutdownTimeoutMs, log)
  using _crash = noteCrash(log)
  await using engine = await LinuxEngine.open({
    ...{ dataDir: templatesDir, stateDir: dataDir },
    hostMemoryBytes: config.minFreeMemoryBytes,
    log,
  })
  const builder = linuxBuilder(engine, templatesDir)
  await using core = await openServer({ config, engine, builder, reserve, log })
  const health = { status: 'ok' as 'ok' | 'stopping' }
  const hostPaths = [dataDir, templatesDir, '/run/dormouse']
  const mcp = openMcp(config, log)
  let ssh: OpenedSsh | undefined
  let endsAt = 0
  const app = await createApp(
    { ...core.services, health: { check: () => ({ status: health.status, version: VERSION }) } },
    {
      logger,
      tls: config.tls && readTls(config.tls),
      hostPaths,
      origins: config.cors.origins,
      moreRoutes: [mcp.routes],
    },
  )
  try {
    const url = await listen(app, config)
    await mcp.open(app, url)
    const { sandboxes } = core.services
    ssh = await openSsh({ config, service: core.ssh, access: core.access, sandboxes, hostPaths, log })
    const apiKey = prepareClient({ access: core.access, dataDir, url })
    const lacks = host.checks.filter(({ status }) => status === 'warn')
    tell({
      ...{ type: 'ready', version: VERSION, url, ssh: ssh.endpoint, dataDir, criu: criu?.version },
      ...{ sandboxes: core.recovery, logPath, apiKey },
      notes: [
        ...(ssh.problem === undefined ? [] : [`SSH is off: ${ssh.problem}`]),
        ...lacks.map(({ title, found }) => `${title}: ${found}`),
      ],
    })
    log.info({ url, recovery: core.recovery }, 'ready')
    // Only a convenience: whatever is wrong with the template, who creates from it is told.
    engine.expectCreate(DEFAULT_TEMPLATE).catch(() => {})
    await untilAborted(signal)
    endsAt = performance.now() + config.shutdownTimeoutMs
    health.status = 'stopping'
  } finally {
    mcp.end()
    await ssh?.[Symbol.asyncDispose]()
    await app.close()
    await mcp.close()
  }
  const { asleep, left, underWay } = await core.sleep(Math.max(0, endsAt - performance.now()))
  tell({ type: 'ended', asleep, left })
  log.info({ asleep, left }, 'ended')
  // The data directory must not be given to another server while something is still being saved into it: its lock goes with the process.
  if (underWay > 0) process.exit(0)
}

async function listen(app: App, { host, port, ...config }: ServerConfig): Promise<string> {
  try {
    await app.listen({ host, port })
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new DormouseError('setup_failed', `The server cannot listen on ${host}:${port}: ${code}`, {
      ...(code === 'EADDRINUSE' && { hint: 'Another program has this port: choose one with --port.' }),
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
