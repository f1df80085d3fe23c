import moduleSystem from 'node:module'
import { constants } from 'node:os'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { commandIndex, parseArguments, UsageError } from './arguments.mjs'
import { isClientCommand } from './client-commands.mjs'

const repoDir = dirname(dirname(fileURLToPath(import.meta.url)))
const interruption = new AbortController()
const typed = process.argv.slice(2)
const at = commandIndex(typed)

if (isClientCommand(typed.slice(at))) {
  // Node 22 and later keep compiled code: what is typed often should start fast.
  Reflect.get(moduleSystem, 'enableCompileCache')?.()
  const { runClientCommand } = await import('./run-client-command.mjs')
  const [command = '', ...rest] = typed.slice(at)
  // What is still open (idle connections, stdin) is nothing to wait for.
  process.exit(await runClientCommand([command, ...typed.slice(0, at), ...rest]))
}

for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  process.on(signal, () => interruption.abort(signal))
}

try {
  process.exitCode = await runCommandLine()
} catch (error) {
  if (interruption.signal.aborted && error === interruption.signal.reason) {
    process.stderr.write('dormouse: stopped. What was finished is kept; run it again to go on.\n')
    process.exitCode = 128 + signalNumber(interruption.signal.reason)
  } else {
    const { showFailure } = await import('./show-failure.mjs')
    process.exitCode = showFailure(error, process.stderr)
  }
}

async function runCommandLine() {
  const { command, args, dataDir } = parseArguments(typed, process.env)
  const { COMMANDS } = await import('./commands.mjs')
  const chosen = Object.hasOwn(COMMANDS, command) ? COMMANDS[command] : undefined
  if (chosen === undefined) throw new UsageError(`there is no command "${command}"`)
  if (chosen.needsRoot && process.getuid?.() !== 0) {
    process.stderr.write(
      `dormouse: \`${command}\` needs root: it makes namespaces, cgroups and mounts.\n` +
        `  Run \`sudo ./dormouse ${command}\`. Sandboxes themselves run without host privileges.\n`,
    )
    return 1
  }
  // What is set up is read by other users (the shifted root of sandboxes), whatever the caller's umask.
  process.umask(0o022)
  const { signal } = interruption
  return chosen.run({ repoDir, dataDir, signal, args, output: process.stderr, stdout: process.stdout })
}

/** @param {NodeJS.Signals} name */
function signalNumber(name) {
  return constants.signals[name]
}
