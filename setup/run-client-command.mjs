import { setMaxListeners } from 'node:events'
import { dirname } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { hasJsonFlag } from './arguments.mjs'
import { findClientBundle } from './client-bundle.mjs'
import { failureLine } from './show-failure.mjs'

const NOT_BUILT = new Set(['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'])

/**
 * Runs a client command, without root and without set-up. Returns the exit status.
 * @param {string[]} args the command and its arguments
 */
export async function runClientCommand(args) {
  const bundle = findClientBundle(dirname(dirname(fileURLToPath(import.meta.url))))
  const client = await import(
    bundle === undefined ? '@dormouse/cli/client' : pathToFileURL(bundle).href
  ).catch((error) => {
    if (!NOT_BUILT.has(error.code)) throw error
    return undefined
  })
  if (client === undefined) {
    const message = `\`${args[0]}\` is not built yet.`
    const hint = 'Run `sudo ./dormouse up` to build it and start the server.'
    process.stderr.write(
      hasJsonFlag(args)
        ? failureLine({ code: 'setup_failed', message, hint })
        : `dormouse: ${message}\n  ${hint}\n`,
    )
    return 1
  }
  const io = clientIo()
  const status = await client.runClient({ args, io })
  return io.signal.reason === 'SIGPIPE' ? 0 : status
}

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
  stdout.on('error', unread)
  stderr.on('error', unread)
  return { stdin, stdout, stderr, env, signal: interruption.signal }
}
