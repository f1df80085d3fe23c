/**
 * Calls `listener` once when `signal` aborts, at once if it already has. Disposing removes the listener. A missing
 * signal never aborts.
 */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): Disposable {
  if (signal?.aborted) {
    listener()
    return NOTHING
  }
  if (signal === undefined) return NOTHING
  signal.addEventListener('abort', listener, { once: true })
  return { [Symbol.dispose]: () => signal.removeEventListener('abort', listener) }
}

const NOTHING: Disposable = { [Symbol.dispose]: () => {} }
