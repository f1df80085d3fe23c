import { setMaxListeners } from 'node:events'
import moduleSystem from 'node:module'
import { constants } from 'node:os'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { commandIndex, JSON_FLAG, parseArguments, UsageError } from './arguments.mjs'
import { isClientCommand } from './client-commands.mjs'

const repoDir = dirname(dirname(fileURLToPath(import.meta.url)))
const interruption = new AbortController()
// Every program that set-up starts listens to it.
setMaxListeners(0, interruption.signal)
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

const isJson = typed.includes(JSON_FLAG)
const HELP_FLAGS = new Set(['--help', '-h'])
try {
  process.exitCode = await runCommandLine()
} catch (error) {
  const { failureLine, showFailure } = await import('./show-failure.mjs')
  if (interruption.signal.aborted && error === interruption.signal.reason) {
    const message = 'stopped. What was finished is kept; run it again to go on.'
    process.stderr.write(isJson ? failureLine({ code: 'cancelled', message }) : `dormouse: ${message}\n`)
    process.exitCode = 128 + signalNumber(interruption.signal.reason)
  } else {
    process.exitCode = showFailure(error, process.stderr, { isJson })
  }
}

async function runCommandLine() {
  const { command, args, dataDir } = parseArguments(typed, process.env)
  const { COMMANDS } = await import('./commands.mjs')
  const known = Object.hasOwn(COMMANDS, command) ? COMMANDS[command] : undefined
  // `test` hands its arguments on.
  const wantsHelp = known !== undefined && command !== 'test' && args.some((arg) => HELP_FLAGS.has(arg))
  const chosen = wantsHelp ? COMMANDS.help : known
  if (chosen === undefined) throw new UsageError(`there is no command "${command}"`)
  if (chosen.needsRoot && process.getuid?.() !== 0) {
    const { failureLine } = await import('./show-failure.mjs')
    const message = `\`${command}\` needs root: it makes namespaces, cgroups and mounts.`
    const hint = `Run \`sudo ./dormouse ${command}\`. Sandboxes themselves run without host privileges.`
    process.stderr.write(
      isJson
        ? failureLine({ code: 'permission_denied', message, hint })
        : `dormouse: ${message}\n  ${hint}\n`,
    )
    return 1
  }
  // What is set up is read by other users (the shifted root of sandboxes), whatever the caller's umask.
  process.umask(0o022)
  const { signal } = interruption
  const { stdout, stderr } = process
  // Who reads JSON on stderr reads errors.
  const output = isJson ? { write: () => {} } : stderr
  const given = wantsHelp ? [command, ...args.filter((arg) => !HELP_FLAGS.has(arg))] : args
  return chosen.run({ repoDir, dataDir, signal, args: given, isJson, output, stdout, stderr })
}

/** @param {NodeJS.Signals} name */
function signalNumber(name) {
  return constants.signals[name]
}
