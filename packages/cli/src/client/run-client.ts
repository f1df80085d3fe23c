import { type Command, CommanderError } from 'commander'
import { formatTable } from '../format/table.ts'
import type { CommandIo } from './command-io.ts'
import { isCommonFlag, placeFlags } from './place-flags.ts'
import { UsageProblem } from './problem.ts'
import { createProgram } from './program.ts'
import { withSeparator } from './separator.ts'
import { showError } from './show-error.ts'

export interface ClientCommand {
  /** The command and what follows it. */
  readonly args: readonly string[]
  readonly io: CommandIo
}

/** Runs one command of a client of the server, and answers its exit status. */
export async function runClient({ args, io }: ClientCommand): Promise<number> {
  const finished = { exitCode: 0 }
  const isJson = hasFlag(args, '--json')
  try {
    const program = createProgram(io, { finished, isJson })
    const prepared = prepare(args, program)
    // In words, its help says it.
    if (isJson) requireVerb(prepared, program)
    await program.parseAsync(prepared, { from: 'user' })
    return finished.exitCode
  } catch (error) {
    const shown = { isJson, dataDir: valueBehind(args, '--data'), command: nameOf(args, io) }
    if (!(error instanceof CommanderError)) return showError(error, io, shown)
    // Help that was asked for is no mistake, and what is one Commander has shown already, in words.
    if (error.exitCode === 0) return 0
    const more = `\`dormouse ${shown.command} --help\` says how it is used.`
    if (isJson) return showError(usageProblem(error, more), io, shown)
    if (error.code !== 'commander.help') io.stderr.write(`  ${more}\n`)
    return USAGE_STATUS
  }
}

const USAGE_STATUS = 2

/** What was wrong is in the first line, and what was perhaps meant below. */
function usageProblem({ message }: CommanderError, more: string): UsageProblem {
  const [what = '', ...hint] = message.replace(/^error: /, '').split('\n')
  return new UsageProblem(what, [...hint, more].join(' '))
}

/** These end with a command line of somebody else's. */
const WITH_COMMAND = new Set(['exec', 'sh', 'ssh'])

function prepare(args: readonly string[], program: Command): string[] {
  const [name = '', ...rest] = placeFlags(args, program)
  const command = program.commands.find((one) => WITH_COMMAND.has(name) && one.name() === name)
  return [name, ...(command === undefined ? rest : withSeparator(rest, command))]
}

function requireVerb([name = '', verb]: readonly string[], program: Command): void {
  const below = program.commands.find((one) => one.name() === name)?.commands ?? []
  if (below.length === 0 || (verb !== undefined && !isCommonFlag(verb))) return
  throw new UsageProblem(
    `\`${name}\` needs one of ${below.map((one) => one.name()).join(', ')}`,
    `\`dormouse ${name} --help\` says what they do.`,
  )
}

/** `snapshot ls` of what was typed. */
function nameOf(args: readonly string[], io: CommandIo): string {
  const program = createProgram(io)
  const [name = '', verb = ''] = placeFlags(args, program)
  const below = program.commands.find((one) => one.name() === name)?.commands ?? []
  return below.some((one) => one.name() === verb) ? `${name} ${verb}` : name
}

/** One line for each command, for a help that also has others. */
export function clientHelp(io: CommandIo): string {
  return formatTable(clientCommands(io).map(({ usage, summary }) => [`  ./dormouse ${usage}`, summary]))
}

/** The same for programs. */
export function clientCommands(io: CommandIo): { usage: string; summary: string }[] {
  return createProgram(io).commands.map((command) => ({
    usage: `${command.name()} ${command.usage().replace(/^\[options\] ?/, '')}`.trimEnd(),
    summary: command.description(),
  }))
}

/** Errors come before or after the flags were parsed: what was typed is looked at itself. */
function hasFlag(args: readonly string[], flag: string): boolean {
  return own(args).includes(flag)
}

function valueBehind(args: readonly string[], flag: string): string | undefined {
  const mine = own(args)
  const at = mine.indexOf(flag)
  return at < 0 ? mine.find((arg) => arg.startsWith(`${flag}=`))?.slice(flag.length + 1) : mine[at + 1]
}

function own(args: readonly string[]): readonly string[] {
  const end = args.indexOf('--')
  return end < 0 ? args : args.slice(0, end)
}
