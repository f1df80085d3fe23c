import { ApiError } from '../http/api-error.ts'
import { sendJson } from '../http/respond.ts'
import type { Exchange, Router } from '../http/router.ts'
import type { Authenticated, ControlParts } from './sandbox-routes.ts'

const LOG_ENTRIES_MAX = 1000

/** Metrics and logs of sandboxes. */
export function observeRoutes(router: Router<Authenticated>, { lifecycle, series }: ControlParts): void {
  router.on('GET', '/sandboxes/:id/metrics', async (exchange) => {
    const { sandbox } = lifecycle.get(exchange.params['id'] ?? '', exchange.key)
    const startMs = numberOf(exchange, 'start', 0) * 1000
    // Clients round to whole seconds.
    const endMs = numberOf(exchange, 'end', Infinity) * 1000 + 999
    sendJson(exchange.response, 200, await series.of(sandbox, { startMs, endMs }))
  })
  router.on('GET', '/sandboxes/metrics', async ({ response, query, key }) => {
    const ids = query.getAll('sandbox_ids').flatMap((text) => text.split(','))
    const entries = ids.map(async (id) => {
      const { sandbox } = lifecycle.get(id, key)
      return [id, (await series.of(sandbox, { startMs: 0, endMs: Infinity })).at(-1)]
    })
    sendJson(response, 200, { sandboxes: Object.fromEntries(await Promise.all(entries)) })
  })
  for (const path of ['/sandboxes/:id/logs', '/v2/sandboxes/:id/logs'])
    router.on('GET', path, (exchange) => {
      const entries = readLog(exchange)
      // The command line parses each line as JSON.
      const logs = entries.map(({ timestamp, level, message }) => ({
        timestamp,
        line: JSON.stringify({ logger: 'dormouse', level, message }),
      }))
      sendJson(
        exchange.response,
        200,
        path.startsWith('/v2') ? { logs: entries } : { logs, logEntries: entries },
      )
    })

  /** What happened to the sandbox. The output of its processes is not logged. */
  function readLog(exchange: Exchange & Authenticated) {
    const { sandbox } = lifecycle.get(exchange.params['id'] ?? '', exchange.key)
    const isBackward = exchange.query.get('direction') === 'backward'
    const startMs = numberOf(
      exchange,
      exchange.query.has('cursor') ? 'cursor' : 'start',
      isBackward ? Infinity : 0,
    )
    const limit = Math.min(numberOf(exchange, 'limit', LOG_ENTRIES_MAX), LOG_ENTRIES_MAX)
    const wanted = sandbox
      .ledger({ limit: LOG_ENTRIES_MAX })
      .items.filter(({ at }) => (isBackward ? Date.parse(at) <= startMs : Date.parse(at) >= startMs))
      .map(({ at, event, cause, detail }) => ({
        timestamp: at,
        level: 'info',
        message: [event, cause, detail].filter(Boolean).join(': '),
        fields: {},
      }))
      .sort((one, other) => Date.parse(one.timestamp) - Date.parse(other.timestamp))
    return isBackward ? wanted.reverse().slice(0, limit) : wanted.slice(0, limit)
  }
}

function numberOf({ query }: Exchange, name: string, fallback: number): number {
  const given = query.get(name)
  const number = given === null || given === '' ? fallback : Number(given)
  if (!Number.isNaN(number) && number >= 0) return number
  throw new ApiError(400, `${name}: must be a number`)
}
