import type { Directory, Located } from '@dormouse/cluster'
import type { SandboxAnswer } from '@dormouse/contracts/http'
import { rowView } from '../sandbox/sandbox-view.ts'
import { cursorOf, positionOf } from '../store/cursor.ts'
import type { Page } from '../store/page.ts'
import type { SandboxQuery, SandboxRow } from '../store/sandbox-rows.ts'

/** The sandboxes of other hosts, as the directory knows them. */
export class ListElsewhere {
  readonly #directory: Directory
  readonly #isHere: (id: string) => boolean

  constructor(directory: Directory, isHere: (id: string) => boolean) {
    this.#directory = directory
    this.#isHere = isHere
  }

  /** Adds those of other hosts to a page of this host's. Newest first. Without `owner`: of all owners. */
  merge(page: Page<SandboxAnswer>, query: SandboxQuery, owner: string | undefined): Page<SandboxAnswer> {
    const elsewhere = this.#matching(query, owner)
    if (elsewhere.length === 0) return page
    const all = [...page.items, ...elsewhere].sort(newestFirst)
    const items = all.slice(0, query.limit)
    const last = items.at(-1)
    const hasMore = all.length > items.length || page.nextCursor !== undefined
    return {
      items,
      nextCursor: hasMore && last !== undefined ? cursorOf(Date.parse(last.createdAt), last.id) : undefined,
    }
  }

  find(id: string): SandboxAnswer | undefined {
    const located = this.#directory.find(id)
    return located && viewOf(located)
  }

  #matching(query: SandboxQuery, owner: string | undefined): SandboxAnswer[] {
    const before = query.cursor === undefined ? undefined : positionOf(query.cursor)
    const isWanted = (located: Located) =>
      !this.#isHere(located.id) &&
      (owner === undefined || located.entry.owner === owner) &&
      (before === undefined || isBefore(located, before)) &&
      isMatching(located, query)
    const found = [...this.#directory.all()].filter(isWanted)
    found.sort((a, b) => b.entry.createdAt - a.entry.createdAt || (a.id < b.id ? 1 : -1))
    return found.slice(0, query.limit + 1).map(viewOf)
  }
}

function viewOf({ entry }: Located): SandboxAnswer {
  const isReplicated = entry.replica !== undefined && entry.replica.snapshotId === entry.head
  return { ...rowView(entry.row as SandboxRow), replicated: isReplicated }
}

function isBefore({ id, entry }: Located, [at, other]: readonly [number, string]): boolean {
  return entry.createdAt < at || (entry.createdAt === at && id < other)
}

function isMatching({ entry }: Located, { state, template, name, metadata = {} }: SandboxQuery): boolean {
  const row = entry.row as SandboxRow
  if (entry.state === 'deleting') return false
  if (state !== undefined && entry.state !== state) return false
  if (template !== undefined && row.template !== template) return false
  if (name !== undefined && entry.name !== name) return false
  return Object.entries(metadata).every(([key, value]) => row.metadata[key] === value)
}

function newestFirst(a: SandboxAnswer, b: SandboxAnswer): number {
  return Date.parse(b.createdAt) - Date.parse(a.createdAt) || (a.id < b.id ? 1 : -1)
}
