import { setMaxListeners } from 'node:events'
import { closeSync } from 'node:fs'
import { isatty } from 'node:tty'

/** After the reader of stdout has gone, the time to end what runs in the sandbox. */
const UNREAD_MS = 10_000

/** The terminal or pipes of this process. The first Ctrl-C aborts `signal`; the second exits immediately. */
export function clientIo() {
  const { stdin, stdout, stderr, env } = process
  const interruption = new AbortController()
  // Every request that is under way adds a listener; `top` and `cp` have many at once.
  setMaxListeners(0, interruption.signal)
  for (const [signal, number] of /** @type {const} */ ([
    ['SIGINT', 2],
    ['SIGTERM', 15],
    ['SIGHUP', 1],
  ])) {
    process.on(signal, () => {
      if (interruption.signal.aborted) process.exit(128 + number)
      interruption.abort(signal)
    })
  }
  // When the reader of stdout is gone, as with `| head`, the command ends.
  const unread = () => {
    interruption.abort('SIGPIPE')
    setTimeout(() => process.exit(0), UNREAD_MS).unref()
  }
  closeLostTerminals()
  stdout.on('error', unread)
  stderr.on('error', unread)
  return { stdin, stdout, stderr, env, signal: interruption.signal }
}

const terminals = [0, 1, 2].filter((fd) => isatty(fd))

/**
 * Lets this process end with its own status after its terminal went away: at exit Node.js restores the modes of
 * terminals, and aborts with a core dump when that fails. It leaves closed descriptors alone.
 */
export function closeLostTerminals() {
  process.on('exit', () => {
    for (const fd of terminals.splice(0)) if (!isatty(fd)) closeSync(fd)
  })
}
