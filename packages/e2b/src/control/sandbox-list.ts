import type { Backend, Caller } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'
import type { Exchange } from '../http/router.ts'
import type { SandboxRecord } from '../sandbox/record.ts'
import { stateOf } from '../sandbox/state.ts'
import { listView } from './sandbox-views.ts'

const PAGE_MAX = 100
const BACKEND_PAGE = 100

interface Found {
  readonly record: SandboxRecord
  readonly state: 'running' | 'paused'
  readonly view: object
}

/** The sandboxes of the caller's key that clients of E2B created or connected to, filtered, sorted and paged. */
export function listSandboxes(
  backend: Pick<Backend, 'sandboxes' | 'records'>,
  caller: Caller,
  { query }: Pick<Exchange, 'query'>,
): { page: object[]; nextToken: string | undefined; running: number } {
  const limit = limitOf(query)
  const all = findAll(backend, caller, metadataOf(query))
  const running = all.filter(({ state }) => state === 'running').length
  const states = query.getAll('state').flatMap((text) => text.split(','))
  const startedAfter = Date.parse(query.get('startedAfter') ?? '')
  const template = query.get('template')
  const direction = query.get('order') === 'asc' ? 1 : -1
  const matching = all
    .filter(
      ({ record, state }) =>
        (states.length === 0 || states.includes(state)) &&
        (Number.isNaN(startedAfter) || record.startedAtMs > startedAfter) &&
        (template === null || template === '' || record.template === template),
    )
    .sort((one, other) => direction * compare(keyOf(one.record), keyOf(other.record)))
  const after = tokenOf(query)
  const from =
    after === undefined
      ? 0
      : matching.findIndex(({ record }) => direction * compare(keyOf(record), after) > 0)
  const page = from < 0 ? [] : matching.slice(from, from + limit)
  const last = page.at(-1)
  const isMore = last !== undefined && last !== matching.at(-1)
  return {
    page: page.map(({ view }) => view),
    nextToken: isMore ? Buffer.from(keyOf(last.record)).toString('base64url') : undefined,
    running,
  }
}

function findAll(
  { sandboxes, records }: Pick<Backend, 'sandboxes' | 'records'>,
  { keyId }: Caller,
  metadata: ReadonlyMap<string, string>,
): Found[] {
  const found: Found[] = []
  // Administrators see the sandboxes of every key elsewhere; here a key has its own.
  const owner = { keyId, isAdmin: false }
  let cursor: string | undefined
  do {
    const { items, nextCursor } = sandboxes.list({ limit: BACKEND_PAGE, ...(cursor && { cursor }) }, owner)
    for (const view of items) {
      const record = records.find(view.id)
      if (record === undefined) continue
      if ([...metadata].some(([name, value]) => view.metadata[name] !== value)) continue
      found.push({ record, state: stateOf(record, view, Date.now()), view: listView(record, view) })
    }
    cursor = nextCursor
  } while (cursor !== undefined)
  return found
}

function limitOf(query: URLSearchParams): number {
  const limit = Number(query.get('limit') ?? PAGE_MAX)
  if (Number.isInteger(limit) && limit >= 1 && limit <= PAGE_MAX) return limit
  throw new ApiError(400, `limit: must be a number from 1 to ${PAGE_MAX}`)
}

/** Sorts by start; the id makes it unique. */
function keyOf({ startedAtMs, sandboxId }: SandboxRecord): string {
  return `${String(startedAtMs).padStart(16, '0')}:${sandboxId}`
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}

function tokenOf(query: URLSearchParams): string | undefined {
  const given = query.get('nextToken')
  if (given === null || given === '') return undefined
  const key = Buffer.from(given, 'base64url').toString()
  if (/^\d{16}:sb-/.test(key)) return key
  throw new ApiError(400, 'nextToken: is not a token of this list')
}

/** `k=v&k2=v2`, encoded once more as a value of the query. */
function metadataOf(query: URLSearchParams): Map<string, string> {
  return new Map(new URLSearchParams(query.get('metadata') ?? ''))
}
