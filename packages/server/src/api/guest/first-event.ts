/**
 * Waits for the first element and returns the whole sequence again. An early failure then gets a status code of its own
 * instead of a line in a stream.
 */
export async function firstEvent<Item>(
  events: AsyncIterable<Item>,
): Promise<{ readonly first: Item | undefined; readonly all: AsyncIterable<Item> }> {
  const iterator = events[Symbol.asyncIterator]()
  const next = await iterator.next()
  async function* all() {
    if (next.done === true) return
    try {
      yield next.value
      for (let more = await iterator.next(); more.done !== true; more = await iterator.next())
        yield more.value
    } finally {
      await iterator.return?.()
    }
  }
  return { first: next.done === true ? undefined : next.value, all: all() }
}
