/**
 * Yields the items of a stream, and `undefined` whenever none has come for `everyMs`, so that proxies and clients see
 * that the connection is alive.
 */
export async function* withKeepalive<Item>(
  items: AsyncIterable<Item>,
  everyMs: number,
): AsyncGenerator<Item | undefined> {
  const iterator = items[Symbol.asyncIterator]()
  let pending = iterator.next()
  try {
    for (;;) {
      let timer: NodeJS.Timeout | undefined
      const quiet = new Promise<undefined>((resolve) => {
        timer = setTimeout(() => resolve(undefined), everyMs)
      })
      const next = await Promise.race([pending, quiet]).finally(() => clearTimeout(timer))
      if (next === undefined) {
        yield undefined
        continue
      }
      if (next.done === true) return
      pending = iterator.next()
      yield next.value
    }
  } finally {
    // The reader has left, or the stream has failed: what is still pending needs no answer.
    pending.catch(() => {})
    void iterator.return?.()?.catch?.(() => {})
  }
}
