import { setMaxListeners } from 'node:events'
import moduleSystem from 'node:module'
import { constants } from 'node:os'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { commandIndex, hasJsonFlag, parseArguments, takeHelpFlags, UsageError } from './arguments.mjs'
import { CLIENT_COMMANDS, isClientCommand } from './client-commands.mjs'
import { closeLostTerminals } from './client-io.mjs'

const repoDir = dirname(dirname(fileURLToPath(import.meta.url)))
const interruption = new AbortController()
// Every program that set-up starts adds a listener.
setMaxListeners(0, interruption.signal)
const typed = process.argv.slice(2)
const at = commandIndex(typed)

if (isClientCommand(typed.slice(at))) {
  // Node.js 22 and later cache compiled code, which makes client commands start faster.
  Reflect.get(moduleSystem, 'enableCompileCache')?.()
  const { runClientCommand } = await import('./run-client-command.mjs')
  const [command = '', ...rest] = typed.slice(at)
  // Open handles such as idle connections and stdin must not delay the exit.
  process.exit(await runClientCommand([command, ...typed.slice(0, at), ...rest]))
}

closeLostTerminals()
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  process.on(signal, () => interruption.abort(signal))
}

const isJson = hasJsonFlag(typed)
try {
  process.exitCode = await runCommandLine()
} catch (error) {
  const { failureLine, showFailure } = await import('./show-failure.mjs')
  if (interruption.signal.aborted && error === interruption.signal.reason) {
    const message = 'stopped. Finished steps are kept; run the command again to continue.'
    process.stderr.write(isJson ? failureLine({ code: 'cancelled', message }) : `dormouse: ${message}\n`)
    process.exitCode = 128 + signalNumber(interruption.signal.reason)
  } else {
    const { hasHelp } = await import('./help.mjs')
    const [command] = typed.slice(at)
    process.exitCode = showFailure(error, process.stderr, {
      isJson,
      command: command !== undefined && hasHelp(command) ? command : undefined,
    })
  }
}

async function runCommandLine() {
  const { command, args, dataDir } = parseArguments(typed, process.env)
  const { COMMANDS } = await import('./commands.mjs')
  const known = Object.hasOwn(COMMANDS, command) ? COMMANDS[command] : undefined
  // `test` passes its arguments to vitest.
  const { wantsHelp: hasHelpFlag, others } = takeHelpFlags(args)
  const wantsHelp = known !== undefined && command !== 'test' && hasHelpFlag
  const chosen = wantsHelp ? COMMANDS.help : known
  if (chosen === undefined) {
    const names = [...Object.keys(COMMANDS), ...CLIENT_COMMANDS].filter((name) => !name.startsWith('-'))
    throw new UsageError(`there is no command "${command}"${await suggestionFor(command, names)}`)
  }
  if (chosen.needsRoot && process.getuid?.() !== 0) {
    const { failureLine } = await import('./show-failure.mjs')
    const message = `\`${command}\` needs root to make namespaces, cgroups and mounts.`
    const hint = `Run \`sudo ./dormouse ${command}\`. Sandboxes themselves run without host privileges.`
    process.stderr.write(
      isJson
        ? failureLine({ code: 'permission_denied', message, hint })
        : `dormouse: ${message}\n  ${hint}\n`,
    )
    return 1
  }
  // Other users (the shifted root of sandboxes) read the files of set-up, so the caller's umask must not apply.
  process.umask(0o022)
  const { signal } = interruption
  const { stdout, stderr } = process
  // With --json, stderr has only errors.
  const output = isJson ? { write: () => {} } : stderr
  const commandArgs = wantsHelp ? [command, ...others] : args
  return chosen.run({ repoDir, dataDir, signal, args: commandArgs, isJson, output, stdout, stderr })
}

/**
 * Before the first build there is no suggestion.
 * @param {string} command
 * @param {string[]} names
 */
async function suggestionFor(command, names) {
  const client = await import('@dormouse/cli/client').catch(() => undefined)
  const suggestion = client?.didYouMeanCommand(command, names) ?? ''
  return suggestion === '' ? '' : `. ${suggestion.trimEnd()}`
}

/** @param {NodeJS.Signals} name */
function signalNumber(name) {
  return constants.signals[name]
}
