import { CommanderError } from 'commander'
import { formatTable } from '../format/table.ts'
import { UsageError } from './cli-error.ts'
import type { CommandIo } from './command-io.ts'
import {
  commandName,
  findFlagValue,
  hasFlag,
  missingSubcommands,
  normalizeArguments,
} from './normalize-arguments.ts'
import { createProgram } from './program.ts'
import { showError } from './show-error.ts'

export interface ClientCommand {
  /** The command and its arguments. */
  readonly args: readonly string[]
  readonly io: CommandIo
}

const USAGE_STATUS = 2

/** Runs one client command. Returns its exit status. */
export async function runClient({ args, io }: ClientCommand): Promise<number> {
  const finished = { exitCode: 0 }
  const isJson = hasFlag(args, '--json')
  const program = createProgram(io, { finished, isJson })
  try {
    // Without --json, Commander prints the help of the command instead.
    if (isJson) requireSubcommand(args[0] ?? '', missingSubcommands(args, program))
    await program.parseAsync(normalizeArguments(args, program), { from: 'user' })
    return finished.exitCode
  } catch (error) {
    const command = commandName(args, program)
    const options = { isJson, dataDir: findFlagValue(args, '--data'), command }
    if (!(error instanceof CommanderError)) return showError(error, io, options)
    // Commander has already printed help that was asked for, and usage errors in words.
    if (error.exitCode === 0) return 0
    const hint = `Run \`dormouse ${command} --help\` for its usage.`
    if (isJson) return showError(toUsageError(error, hint), io, options)
    if (error.code !== 'commander.help') io.stderr.write(`  ${hint}\n`)
    return USAGE_STATUS
  }
}

/** Commander puts the mistake on the first line and suggestions below. */
function toUsageError({ message }: CommanderError, hint: string): UsageError {
  const [mistake = '', ...suggestions] = message.replace(/^error: /, '').split('\n')
  return new UsageError(mistake, [...suggestions, hint].join(' '))
}

function requireSubcommand(name: string, missing: readonly string[]): void {
  if (missing.length === 0) return
  throw new UsageError(
    `\`${name}\` needs one of ${missing.join(', ')}`,
    `Run \`dormouse ${name} --help\` for what they do.`,
  )
}

/** One line of help for each client command, in groups. */
export function clientHelp(io: CommandIo): string {
  const commands = clientCommands(io)
  const table = formatTable(commands.map(({ usage, summary }) => [`    ./dormouse ${usage}`, summary]))
  let help = ''
  for (const [index, line] of table.trimEnd().split('\n').entries()) {
    const group = commands[index]?.group
    if (group !== commands[index - 1]?.group) help += `${index === 0 ? '' : '\n'}  ${group}\n`
    help += `${line}\n`
  }
  return help
}

/** The same for programs. */
export function clientCommands(io: CommandIo): { group: string; usage: string; summary: string }[] {
  return createProgram(io).commands.map((command) => ({
    group: command.helpGroup(),
    usage: `${command.name()} ${command.usage().replace(/^\[options\] ?/, '')}`.trimEnd(),
    summary: command.description(),
  }))
}
