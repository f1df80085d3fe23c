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

/** Tells everything that a bucket holds, then every change. Resolves when what it holds has been told. */
export async function watchBucket(bucket: KV, listener: BucketListener): Promise<WatchedBucket> {
  const { values } = await bucket.status()
  const entries = await bucket.watch()
  let loaded = () => {}
  const isLoaded = new Promise<void>((resolve) => {
    loaded = resolve
  })
  const follow = async () => {
    for await (const entry of entries) {
      tell(listener, entry)
      if (entry.delta === 0) loaded()
    }
    loaded()
  }
  void follow()
  if (values > 0) await isLoaded
  return { [Symbol.dispose]: () => entries.stop() }
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
