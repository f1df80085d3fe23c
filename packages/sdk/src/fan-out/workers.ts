/** Does all of `items`, so many at a time, in order of their beginning. `work` does not throw. */
export async function eachAtOnce<Item>(
  items: readonly Item[],
  concurrency: number,
  work: (item: Item, index: number) => Promise<void>,
): Promise<void> {
  const entries = items.entries()
  const worker = async () => {
    for (const [index, item] of entries) await work(item, index)
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, worker))
}
