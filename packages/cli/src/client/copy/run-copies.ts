import { Limiter } from '@dormouse/async'

/** Hides the round trip to the server without loading it. */
const CONCURRENCY = 8

/** Runs all copies, some of them at the same time. Rejects with the first failure. */
export async function runCopies<Item>(
  items: readonly Item[],
  copy: (item: Item) => Promise<void>,
): Promise<void> {
  const limiter = new Limiter({ concurrency: CONCURRENCY })
  await Promise.all(items.map((item) => limiter.run(() => copy(item))))
}
