import { dirname } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { hasJsonFlag } from './arguments.mjs'
import { findClientBundle } from './client-bundle.mjs'
import { clientIo } from './client-io.mjs'
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
