import { DormouseError } from '../error.ts'

/** Calls `work`, which must not throw, for all items in order, at most `concurrency` at once. */
export async function forEachConcurrently<Item>(
  items: readonly Item[],
  concurrency: number,
  work: (item: Item, index: number) => Promise<void>,
): Promise<void> {
  if (!Number.isInteger(concurrency) || concurrency < 1)
    throw new DormouseError(
      'invalid_argument',
      `concurrency: must be a whole number from 1 (saw ${concurrency})`,
    )
  const entries = items.entries()
  const worker = async () => {
    for (const [index, item] of entries) await work(item, index)
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, worker))
}
