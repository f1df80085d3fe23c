import { once } from 'node:events'
import { DormouseError } from '@dormouse/contracts'
import { examineHost, findCriu, type HostReport, listTemplates } from '@dormouse/engine-linux/setup'
import type { ServerConfig } from './config/config.ts'
import { openDataDirectory } from './data-directory/open-data-directory.ts'

/** An idle event loop ends the process; until something listens, a timer keeps it. */
const KEEP_ALIVE_MS = 60_000

export interface RunServer {
  readonly config: ServerConfig
  /** Aborting it ends the server in order. */
  readonly signal: AbortSignal
  readonly print: (line: string) => void
}

/** Resolves when `signal` has ended it. Refuses a data directory in use and a host that cannot run sandboxes. */
export async function runServer({ config, signal, print }: RunServer): Promise<void> {
  const { dataDir } = config
  await using _directory = await openDataDirectory(dataDir)
  const [host, criu, templates] = await Promise.all([
    examineHost(dataDir),
    findCriu(dataDir),
    listTemplates(dataDir),
  ])
  refuseUnfitHost(host)
  print('Dormouse is ready.')
  print(`  data       ${dataDir}`)
  print(`  CRIU       ${criu?.version ?? 'none'}`)
  print(`  templates  ${templates.map(({ name }) => name).join(', ')}`)
  print('  host       sandboxes can run')
  for (const { title, found } of host.checks.filter(({ status }) => status === 'warn')) {
    print(`             ${title}: ${found}`)
  }
  print('Ctrl-C ends it.')
  await untilAborted(signal)
  print('Dormouse has ended.')
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
  if (signal.aborted) return
  const timer = setInterval(() => {}, KEEP_ALIVE_MS)
  await once(signal, 'abort')
  clearInterval(timer)
}
