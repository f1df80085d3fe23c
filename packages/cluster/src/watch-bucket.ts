import { withTimeout } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import type { KV, KvWatchEntry } from '@nats-io/kv'
import type { Versioned } from './compare-and-set.ts'

export interface BucketListener {
  /** Throws for an entry that it cannot read. */
  readonly put: (key: string, entry: Versioned) => void
  readonly removed: (key: string, revision: number) => void
  /** `put` has thrown. All others are told: one damaged entry must not hide what follows it. */
  readonly unreadable?: (key: string, error: unknown) => void
}

export type WatchedBucket = Disposable

/** A bucket of a large cluster is told in less. */
const LOAD_MS = 20_000

/**
 * Tells everything that a bucket holds, then every change. Resolves when what it holds has been told. Throws
 * `cluster_unavailable` when NATS does not tell all of it: a host that starts must not wait for that without an end.
 */
export async function watchBucket(
  bucket: KV,
  listener: BucketListener,
  { loadMs = LOAD_MS } = {},
): Promise<WatchedBucket> {
  const { values, streamInfo } = await bucket.status()
  const entries = await bucket.watch()
  let loaded = () => {}
  const isLoaded = new Promise<void>((resolve) => {
    loaded = resolve
  })
  const follow = async () => {
    for await (const entry of entries) {
      tell(listener, entry)
      // The count of those to come is a statistic of NATS. The newest one is the last in any case.
      if (entry.delta === 0 || entry.revision >= streamInfo.state.last_seq) loaded()
    }
    loaded()
  }
  void follow()
  if (values === 0) return { [Symbol.dispose]: () => entries.stop() }
  try {
    await withTimeout(isLoaded, loadMs, () => notTold(streamInfo.config.name))
  } catch (error) {
    entries.stop()
    throw error
  }
  return { [Symbol.dispose]: () => entries.stop() }
}

function notTold(stream: string): DormouseError {
  return new DormouseError('cluster_unavailable', `NATS does not tell all that the stream ${stream} holds.`, {
    hint: 'Start this host again. If that does not help, see "When a disk of NATS is full" in docs/guides/cluster.md.',
    details: { retryAfterMs: 1_000 },
  })
}

function tell({ put, removed, unreadable }: BucketListener, entry: KvWatchEntry): void {
  if (entry.operation !== 'PUT') {
    removed(entry.key, entry.revision)
    return
  }
  try {
    put(entry.key, { value: entry.value, revision: entry.revision })
  } catch (error) {
    unreadable?.(entry.key, error)
  }
}
