import { cursorOf } from '../../store/cursor.ts'
import type { App } from '../route.ts'
import { HOP_HEADER } from './host-connections.ts'

/** Asks the other hosts for their part of a list, for the caller with this key. */
export type AskOthers = (path: string, keyId: string) => Promise<readonly unknown[]>

interface Item {
  readonly id: string
  readonly createdAt: string
}

interface Items {
  readonly items: readonly Item[]
  readonly nextCursor?: string | undefined
}

/** Lists of what lives on one host each. Lists of sandboxes come from the directory. */
const MERGED = new Set(['/v1/jobs', '/v1/services'])
const LIMIT_DEFAULT = 100

/** Adds what other hosts have to lists of jobs and services. Newest first. */
export function mergeLists(app: App, askOthers: AskOthers): void {
  app.addHook('preSerialization', async (request, reply, payload) => {
    const { method, url, headers, routeOptions, query, key } = request
    const isList = method === 'GET' && MERGED.has(routeOptions.url ?? '') && reply.statusCode === 200
    if (!isList || headers[HOP_HEADER] !== undefined) return payload
    const others = (await askOthers(url, key.keyId)) as readonly Items[]
    const { limit = LIMIT_DEFAULT } = query as { limit?: number }
    return mergePages([payload as Items, ...others], limit)
  })
}

function mergePages(pages: readonly Items[], limit: number): Items {
  const all = pages.flatMap(({ items }) => items)
  all.sort((a, b) => Date.parse(b.createdAt) - Date.parse(a.createdAt) || (a.id < b.id ? 1 : -1))
  const items = all.slice(0, limit)
  const hasMore = all.length > limit || pages.some(({ nextCursor }) => nextCursor !== undefined)
  const last = items.at(-1)
  const nextCursor = hasMore && last !== undefined ? cursorOf(Date.parse(last.createdAt), last.id) : undefined
  return { items, nextCursor }
}
