import type { Logger } from 'pino'

/** Time to close everything else after the sandboxes. Takes milliseconds, unless something hangs. */
const CLOSING_MS = 10_000

/**
 * Ends the process `ms` and a little more after `signal` aborts, whatever hangs. Recovery then treats unfinished work
 * as after `kill -9`. Dispose when the server has ended by itself.
 */
export function endInTime(signal: AbortSignal, ms: number, log: Logger): Disposable {
  let timer: NodeJS.Timeout | undefined
  const begin = () => {
    timer = setTimeout(() => {
      log.fatal({}, 'the server took too long to end and was stopped; the next start recovers all sandboxes')
      process.exit(1)
    }, ms + CLOSING_MS).unref()
  }
  signal.addEventListener('abort', begin, { once: true })
  return {
    [Symbol.dispose]: () => {
      signal.removeEventListener('abort', begin)
      clearTimeout(timer)
    },
  }
}

/** Logs an uncaught error before it ends the process. */
export function logCrashes(log: Logger): Disposable {
  const note = (error: unknown) => log.fatal({ err: error }, 'the server ends because of an uncaught error')
  process.on('uncaughtExceptionMonitor', note)
  return { [Symbol.dispose]: () => void process.off('uncaughtExceptionMonitor', note) }
}
