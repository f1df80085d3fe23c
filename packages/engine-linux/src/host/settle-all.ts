/** Does all of it, so many at a time, begun in this order, whatever becomes of each. */
export async function settleAll<Value>(
  work: readonly (() => Promise<Value>)[],
  atOnce: number,
): Promise<PromiseSettledResult<Value>[]> {
  const results = new Map<number, PromiseSettledResult<Value>>()
  const waiting = work.entries()
  const worker = async () => {
    for (const [index, job] of waiting) {
      const [result] = await Promise.allSettled([job()])
      results.set(index, result)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  return work.flatMap((_, index) => results.get(index) ?? [])
}

export function fulfilled<Value>(result: PromiseSettledResult<Value>): Value[] {
  return result.status === 'fulfilled' ? [result.value] : []
}

/** Like Promise.all, but also in case of failure nothing goes on afterwards: whoever calls it is about to remove what they make. */
export async function allOf<const Work extends readonly Promise<unknown>[]>(
  work: Work,
): Promise<{ -readonly [Index in keyof Work]: Awaited<Work[Index]> }> {
  await Promise.allSettled(work)
  return Promise.all(work)
}
