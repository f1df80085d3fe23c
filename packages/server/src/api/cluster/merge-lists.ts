import { z } from 'zod'
import { cursorOf } from '../../store/cursor.ts'
import type { App } from '../route.ts'
import { HOP_HEADER } from './host-connections.ts'

/** Asks the other hosts for their part of a list, for the caller with this key. */
export type AskOthers = (path: string, keyId: string) => Promise<readonly unknown[]>

/** A page of another host. One that is something else is left out. */
const itemsSchema = z.object({
  items: z.array(z.looseObject({ id: z.string(), createdAt: z.iso.datetime() })),
  nextCursor: z.string().optional(),
})

type Items = z.output<typeof itemsSchema>

/** Lists of what lives on one host each. Sandboxes and jobs are known to every host. */
const MERGED = new Set(['/v1/services'])
const LIMIT_DEFAULT = 100

/** Adds what other hosts have to lists of services. Newest first. */
export function mergeLists(app: App, askOthers: AskOthers): void {
  app.addHook('preSerialization', async (request, reply, payload) => {
    const { method, url, headers, routeOptions, query, key } = request
    const isList = method === 'GET' && MERGED.has(routeOptions.url ?? '') && reply.statusCode === 200
    if (!isList || headers[HOP_HEADER] !== undefined) return payload
    const others = (await askOthers(url, key.keyId)).map((page) => itemsSchema.safeParse(page).data)
    const { limit = LIMIT_DEFAULT } = query as { limit?: number }
    return mergePages([payload as Items, ...others.filter((page) => page !== undefined)], limit)
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
