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
  const waiting = listeners.get(signal) ?? listenOnce(signal)
  // A function of its own, so that the same listener can be added twice.
  const call = () => listener()
  waiting.add(call)
  return {
    [Symbol.dispose]: () => {
      waiting.delete(call)
    },
  }
}

/** One listener per signal: Node warns of a leak when many calls that share a signal each add their own. */
const listeners = new WeakMap<AbortSignal, Set<() => void>>()

function listenOnce(signal: AbortSignal): Set<() => void> {
  const waiting = new Set<() => void>()
  listeners.set(signal, waiting)
  signal.addEventListener(
    'abort',
    () => {
      for (const call of waiting) {
        try {
          call()
        } catch (error) {
          // As for a listener of its own: an error does not keep the others from being called.
          queueMicrotask(() => {
            throw error
          })
        }
      }
      waiting.clear()
    },
    { once: true },
  )
  return waiting
}

const NOTHING: Disposable = { [Symbol.dispose]: () => {} }
