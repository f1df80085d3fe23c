/**
 * Runs all jobs, at most `concurrency` at once, started in order. Never rejects; results are in the order of the jobs.
 */
export async function settleAll<Value>(
  jobs: readonly (() => Promise<Value>)[],
  concurrency: number,
): Promise<PromiseSettledResult<Value>[]> {
  const results = new Map<number, PromiseSettledResult<Value>>()
  const remaining = jobs.entries()
  const worker = async () => {
    for (const [index, job] of remaining) {
      const [result] = await Promise.allSettled([job()])
      results.set(index, result)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, worker))
  return jobs.flatMap((_, index) => results.get(index) ?? [])
}

/** Jobs that begin after one has failed do nothing, and reject for the same reason. */
export function untilOneFails<Job extends readonly unknown[], Value>(
  job: (...args: Job) => Promise<Value>,
): (...args: Job) => Promise<Value> {
  const failing = new AbortController()
  return async (...args) => {
    failing.signal.throwIfAborted()
    return job(...args).catch((error: unknown) => {
      failing.abort(error)
      throw error
    })
  }
}

export function fulfilled<Value>(result: PromiseSettledResult<Value>): Value[] {
  return result.status === 'fulfilled' ? [result.value] : []
}

/**
 * Like Promise.all, but waits for every promise even when one rejects: the caller can then clean up without something
 * still running.
 */
export async function allOf<const Work extends readonly Promise<unknown>[]>(
  work: Work,
): Promise<{ -readonly [Index in keyof Work]: Awaited<Work[Index]> }> {
  await Promise.allSettled(work)
  return Promise.all(work)
}
