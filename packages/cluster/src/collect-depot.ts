import { chunkObject, type Depot, listObject, periodOf } from './depot.ts'

/** Reads the lists of a depot: which lists and chunks a list names. */
export interface DepotLists {
  /** Lists of snapshots that a host refers to. Read anew for every collection. */
  roots(): Promise<Iterable<string>>
  namedBy(list: unknown): { readonly lists: readonly string[]; readonly chunks: readonly string[] }
}

export interface Collected {
  readonly removed: number
  readonly removedBytes: number
  readonly kept: number
  readonly keptBytes: number
}

/**
 * Objects of the present period and the two before stay. A writer relies on objects of the period in which it began, and
 * gives up when that is not the present one or the one before. The third is for the moment between this and its entry.
 */
const PERIODS_KEPT = 3

/**
 * Removes objects that no root leads to. An object without a name now can only be named later by a writer that
 * has seen it in its own period, and those stay. Two collections may run at once.
 */
export async function collectDepot(depot: Depot, lists: DepotLists): Promise<Collected> {
  // Asked for before the roots are read: a writer whose entry is not among them has begun in a period that stays.
  const oldest = (await depot.period()) - PERIODS_KEPT + 1
  const used = await mark(depot, lists)
  const total = { removed: 0, removedBytes: 0, kept: 0, keptBytes: 0 }
  const doomed: string[] = []
  for await (const { name, bytes } of depot.store.list()) {
    if (used.has(name) || !(periodOf(name) < oldest)) {
      total.kept += 1
      total.keptBytes += bytes
      continue
    }
    doomed.push(name)
    total.removed += 1
    total.removedBytes += bytes
  }
  // Lists first: a list never names what is gone, even when this is cut off.
  doomed.sort((one, other) => Number(other.startsWith('list-')) - Number(one.startsWith('list-')))
  for (const name of doomed) await depot.store.remove(name)
  return total
}

/** Everything that the roots lead to. Throws when a list cannot be read: what it names is not known. */
async function mark(depot: Depot, { roots, namedBy }: DepotLists): Promise<Set<string>> {
  const used = new Set<string>()
  const open = [...(await roots())]
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (used.has(listObject(name))) continue
    used.add(listObject(name))
    const found = await depot.findList(name)
    // A root that was replaced and collected by another host meanwhile.
    if (found === undefined) continue
    const { lists, chunks } = namedBy(found.list)
    for (const chunk of [...chunks, ...found.chunks]) used.add(chunkObject(chunk))
    open.push(...lists)
  }
  return used
}
