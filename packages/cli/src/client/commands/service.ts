import type { Service, ServiceLogLine } from 'dormouse'
import { formatDistance, formatDuration } from '../../format/amounts.ts'
import { formatFields, formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { type ServiceFlags, toSettings } from '../service-flags.ts'
import { checkpointText } from './show.ts'

interface LogsFlags {
  readonly follow?: boolean
  readonly since?: number
  readonly search?: string
  readonly tail?: number
}

export async function listServices(call: Call, { quiet }: { quiet?: boolean }): Promise<void> {
  const services = await call.client.services.list({ signal: call.signal }).all()
  if (quiet === true) return call.printNames(services)
  const rows = services.map((service) => [
    service.name,
    service.version === undefined ? '-' : `v${service.version}`,
    stateOf(service),
    `${service.replicas.items.filter(({ isAwake }) => isAwake).length} of ${service.replicas.items.length}`,
    service.public ? 'public' : 'private',
    service.url,
  ])
  const head = ['NAME', 'VERSION', 'STATE', 'AWAKE', 'ACCESS', 'URL']
  call.printResult({ services }, rows.length === 0 ? '' : formatTable([head, ...rows]))
  if (rows.length === 0)
    call.note('There are no services. Deploy one with `dormouse deploy DIRECTORY --port N`.')
}

export async function showService(call: Call, name: string): Promise<void> {
  const service = await call.client.services.get(name, { signal: call.signal })
  call.printResult(service, formatService(service))
}

export async function updateService(call: Call, name: string, flags: ServiceFlags): Promise<void> {
  const change = toSettings(flags)
  if (Object.keys(change).length === 0)
    throw new UsageError('there is nothing to change', 'Give a flag, such as --max 5 or --public.')
  const service = await call.client.services.update(name, change, { signal: call.signal })
  call.printResult(service, formatService(service))
}

export async function rollbackService(call: Call, name: string, { to }: { to?: number }): Promise<void> {
  const rollback = call.client.services.rollback(name, {
    signal: call.signal,
    ...(to !== undefined && { version: to }),
  })
  const service = await call.withProgress(`Rolling ${name} back`, rollback)
  call.printResult(service, `Version ${service.version} of ${name} serves.\n`)
}

export async function removeServices(call: Call, names: readonly string[]): Promise<void> {
  for (const name of names) await call.client.services.delete(name, { signal: call.signal })
  call.printResult({ deleted: names }, names.map((name) => `${name}\n`).join(''))
}

export async function showServiceLogs(call: Call, name: string, flags: LogsFlags): Promise<void> {
  const { follow, since, search, tail } = flags
  const lines = call.client.services.logs(name, {
    ...{ follow, search, tail, signal: call.signal },
    since: since === undefined ? undefined : new Date(since).toISOString(),
  })
  for await (const line of lines) {
    if (call.isJson) call.printJsonLine(line)
    else call.io.stdout.write(`${formatLine(line)}\n`)
  }
}

function formatLine({ at, version, stream, text }: ServiceLogLine): string {
  return `${at} v${version} ${stream === 'system' ? `— ${text}` : text}`
}

function stateOf({ versions, version }: Service): string {
  const [newest] = versions
  if (newest === undefined || newest.version === version) return version === undefined ? 'empty' : 'ready'
  return version === undefined ? newest.state : `ready; v${newest.version} ${newest.state}`
}

function healthText(health: Service['health']): string | undefined {
  if (health === undefined) return undefined
  const { path, intervalMs = 10_000, failures = 3 } = health
  const what = path === undefined ? 'a connection to the port' : `GET ${path}`
  return `${what} every ${formatDuration(intervalMs)}; restarts after ${failures} failures`
}

function formatService(service: Service): string {
  const { replicas, versions } = service
  const now = Date.now()
  const fields = formatFields([
    ['name', service.name],
    ['id', service.id],
    ['url', service.url],
    ['access', service.public ? 'public' : 'private'],
    ['version', service.version === undefined ? undefined : String(service.version)],
    ['port', String(service.port)],
    ['replicas', `${replicas.min} to ${replicas.max}, ${replicas.concurrency} requests each`],
    ['restart', service.restart],
    ['health', healthText(service.health)],
    ['checkpoints', checkpointText(service.checkpointEveryMs)],
  ])
  const versionRows = versions.map(({ version, state, isCurrent, createdAt, error }) => [
    `${version}${isCurrent ? ' (current)' : ''}`,
    state,
    `${formatDistance(Date.parse(createdAt), now)} ago`,
    error ?? '',
  ])
  const replicaRows = replicas.items.map(({ sandboxId, version, state, isAwake, requests, restarts }) => [
    ...[sandboxId, String(version), state, isAwake ? 'awake' : 'asleep'],
    ...[String(requests), String(restarts)],
  ])
  const parts = [fields, formatTable([['VERSION', 'STATE', 'DEPLOYED', 'ERROR'], ...versionRows])]
  if (replicaRows.length > 0)
    parts.push(
      formatTable([['REPLICA', 'VERSION', 'STATE', 'AWAKE', 'REQUESTS', 'RESTARTS'], ...replicaRows]),
    )
  return parts.join('\n')
}
