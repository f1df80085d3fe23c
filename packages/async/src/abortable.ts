import { onAbort } from './on-abort.ts'

/** The reason of an aborted signal, as an Error. */
export function abortError(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error('aborted', { cause: signal.reason })
}

/**
 * Settles as `work` does, or rejects when `signal` aborts. `work` itself continues; its outcome is then ignored.
 * `makeError` replaces the signal's own reason.
 */
export function abortable<Value>(
  work: Promise<Value>,
  signal: AbortSignal | undefined,
  makeError: (signal: AbortSignal) => Error = abortError,
): Promise<Value> {
  if (signal === undefined) return work
  return new Promise((resolve, reject) => {
    const listener = onAbort(signal, () => reject(makeError(signal)))
    const stop = () => listener[Symbol.dispose]()
    work.finally(stop).then(resolve, reject)
  })
}
