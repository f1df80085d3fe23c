import type { BackendSandbox } from '../backend.ts'
import { sendJson } from '../http/respond.ts'
import type { Router } from '../http/router.ts'
import type { Authenticated, ControlParts } from './sandbox-routes.ts'

const LOG_ENTRIES = 1000
/** A range that ends this long ago is in the past. */
const NOW_MS = 10_000

interface Sample {
  readonly atMs: number
  readonly cpuMs: number
}

/** Metrics and logs of sandboxes. There is no history: metrics are one sample, taken now. */
export function observeRoutes(router: Router<Authenticated>, { lifecycle }: ControlParts): void {
  const samples = new WeakMap<BackendSandbox, Sample>()
  router.on('GET', '/sandboxes/:id/metrics', async ({ response, params, query, key }) => {
    const { sandbox } = lifecycle.get(params['id'] ?? '', key)
    const isNow = Number(query.get('end') ?? Infinity) * 1000 >= Date.now() - NOW_MS
    sendJson(response, 200, isNow ? await measure(sandbox, samples) : [])
  })
  router.on('GET', '/sandboxes/metrics', async ({ response, query, key }) => {
    const ids = query.getAll('sandbox_ids').flatMap((text) => text.split(','))
    const entries = ids.map(async (id) => {
      const { sandbox } = lifecycle.get(id, key)
      return [id, (await measure(sandbox, samples))[0]]
    })
    sendJson(response, 200, { sandboxes: Object.fromEntries(await Promise.all(entries)) })
  })
  for (const path of ['/sandboxes/:id/logs', '/v2/sandboxes/:id/logs'])
    router.on('GET', path, ({ response, params, key }) => {
      const { sandbox } = lifecycle.get(params['id'] ?? '', key)
      const entries = sandbox.ledger({ limit: LOG_ENTRIES }).items.map(({ at, event, cause, detail }) => ({
        timestamp: at,
        level: 'info',
        message: [event, cause, detail].filter(Boolean).join(': '),
        fields: {},
      }))
      const logs = entries.map(({ timestamp, message }) => ({ timestamp, line: message }))
      sendJson(response, 200, path.startsWith('/v2') ? { logs: entries } : { logs, logEntries: entries })
    })
}

async function measure(sandbox: BackendSandbox, samples: WeakMap<BackendSandbox, Sample>): Promise<object[]> {
  const { limits } = sandbox.view()
  const { usage } = await sandbox.metrics({ withMemory: false })
  // A sandbox that sleeps on disk uses nothing.
  if (usage === undefined) return []
  const now = { atMs: Date.now(), cpuMs: usage.cpuMs }
  const before = samples.get(sandbox)
  samples.set(sandbox, now)
  const share = before === undefined ? 0 : (now.cpuMs - before.cpuMs) / Math.max(1, now.atMs - before.atMs)
  const metric = {
    timestamp: new Date(now.atMs).toISOString(),
    timestampUnix: Math.floor(now.atMs / 1000),
    cpuCount: Math.max(1, Math.round(limits.cpus)),
    cpuUsedPct: Math.max(0, Math.round(share * 10_000) / 100),
    memUsed: usage.memoryBytes,
    memTotal: limits.memoryBytes,
    memCache: 0,
    diskUsed: 0,
    diskTotal: limits.diskBytes,
  }
  return [metric]
}
