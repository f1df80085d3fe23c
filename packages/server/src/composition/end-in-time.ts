import type { Logger } from 'pino'

/** For closing what is left when the sandboxes have had their time: milliseconds, unless something hangs. */
const CLOSING_MS = 10_000

/**
 * From the abort of `signal` on, the process has `ms` and a little more until it ends, whatever hangs. What is under way then is as after
 * `kill -9`, which every start is prepared for. Dispose when everything has ended by itself.
 */
export function endInTime(signal: AbortSignal, ms: number, log: Logger): Disposable {
  let timer: NodeJS.Timeout | undefined
  const begin = () => {
    timer = setTimeout(() => {
      log.fatal({}, 'the server took too long to end and was cut off; the next start finds everything')
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

/** What nobody has caught ends the process as it always does, but the log has it then, too. */
export function noteCrash(log: Logger): Disposable {
  const note = (error: unknown) =>
    log.fatal({ err: error }, 'the server ends: an error that nobody has caught')
  process.on('uncaughtExceptionMonitor', note)
  return { [Symbol.dispose]: () => void process.off('uncaughtExceptionMonitor', note) }
}
