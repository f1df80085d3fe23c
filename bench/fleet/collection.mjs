import { randomBytes } from 'node:crypto'
import { collectDepot, Depot } from '@dormouse/cluster'
import { MemoryStore } from './memory-store.mjs'

const TEN_DAYS_MS = 10 * 86_400_000

/** Times the collection of a depot in memory that has this many snapshots, every second of them in use. */
export async function measureCollection({ key, snapshots }) {
  const store = new MemoryStore()
  const depot = new Depot({ store, key, clockMs: 0 })
  const roots = []
  for (let index = 0; index < snapshots; index += 1) {
    const part = await depot.putList(`part-${index}`, {
      parts: [],
      chunks: [`${randomBytes(24).toString('hex')}-0`],
    })
    const root = await depot.putList(`all-${index}`, { parts: [part], chunks: [] })
    if (index % 2 === 0) roots.push(root)
  }
  store.nowMsValue = TEN_DAYS_MS
  const began = performance.now()
  const { removed, kept } = await collectDepot(depot, {
    roots: async () => roots,
    namedBy: ({ parts, chunks }) => ({ lists: parts, chunks }),
  })
  const perSnapshotMs = (performance.now() - began) / roots.length
  await depot[Symbol.asyncDispose]()
  return { snapshots, removed, kept, perSnapshotMs }
}
