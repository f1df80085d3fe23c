import { KeyedMutex } from '@dormouse/async'
import type { Depot } from '@dormouse/cluster'
import type { SnapshotId } from '@dormouse/contracts'
import type { PortablePart, SnapshotNeeds } from '@dormouse/engine'
import { bytesOfPart, type SnapshotList, storePart } from './depot-lists.ts'
import type { SnapshotCarrier } from './snapshot-carrier.ts'

export interface Uploaded {
  /** The name of its list in the depot. */
  readonly list: string
  readonly needs: SnapshotNeeds
  /** What a host without any of it has to fetch. */
  readonly bytes: number
  readonly sentBytes: number
}

/** Of this many parts a host knows the size without asking the depot. */
const SIZES_MAX = 10_000

/**
 * Uploads what the depot lacks of a snapshot. `kept`: lists of parts that stay in the depot until the caller has recorded
 * this one, by key.
 */
export async function uploadSnapshot(
  { depot, transfer }: { depot: Depot; transfer: SnapshotCarrier },
  snapshotId: SnapshotId,
  kept: ReadonlyMap<string, string> = new Map(),
): Promise<Uploaded> {
  const begun = await depot.period()
  return await transfer.export(snapshotId, async ({ needs, parts }) => {
    // What the depot has of a snapshot is of no use to a host that lacks what it stands on.
    await transfer.bases?.keep(needs)
    const listed: SnapshotList['parts'] = []
    let sentBytes = 0
    for (const part of parts) {
      const uploaded = kept.get(part.key) ?? (await uploadPart(depot, part))
      if (typeof uploaded !== 'string') sentBytes += uploaded.sentBytes
      listed.push({ key: part.key, list: typeof uploaded === 'string' ? uploaded : uploaded.list })
    }
    const base = `all-${listNameOf(parts[0]?.key ?? snapshotId)}`
    const list = await depot.putList(base, { parts: listed } satisfies SnapshotList)
    const each = await Promise.all(listed.map((part) => sizeOf(depot, part)))
    const bytes = each.reduce((sum, size) => sum + size, 0)
    // What it relies on may be collected. The next try relies on newer objects.
    if ((await depot.period()) > begun + 1) throw new Error('the upload took longer than a period')
    return { list, needs, bytes, sentBytes }
  })
}

/** A sandbox and a snapshot of it may have the same large part, and both are uploaded at once. */
const uploading = new KeyedMutex()

/** The content follows from the key, so a part that is listed is there. */
export async function uploadPart(
  depot: Depot,
  part: PortablePart,
): Promise<{ list: string; sentBytes: number }> {
  const base = listNameOf(part.key)
  return await uploading.run(base, async () => {
    const known = await depot.findRecent(base)
    if (known !== undefined) return { list: known, sentBytes: 0 }
    const { list, sentBytes } = await storePart(depot, part)
    noteSize(part.key, bytesOfPart(list))
    return { list: await depot.putList(base, list), sentBytes }
  })
}

/** Sizes of parts by key. The content follows from the key, and so does the size. */
const sizes = new Map<string, number>()

function noteSize(key: string, bytes: number): void {
  const [oldest] = sizes.keys()
  if (sizes.size >= SIZES_MAX && oldest !== undefined) sizes.delete(oldest)
  sizes.set(key, bytes)
}

/** The size of a part in the depot. Reads its list once, unless this host has uploaded it. */
export async function sizeOf(depot: Depot, { key, list }: { key: string; list: string }): Promise<number> {
  const known = sizes.get(key)
  if (known !== undefined) return known
  const bytes = bytesOfPart(await depot.getList(list))
  noteSize(key, bytes)
  return bytes
}

/** Keys have characters that subjects of NATS have not. */
function listNameOf(key: string): string {
  return key.replaceAll(/[^A-Za-z0-9_-]/g, '_')
}
