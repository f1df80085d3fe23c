import { type Command, CommanderError } from 'commander'
import { formatTable } from '../format/table.ts'
import type { CommandIo } from './command-io.ts'
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
  try {
    const program = createProgram(io, finished)
    await program.parseAsync(prepare(args, program), { from: 'user' })
    return finished.exitCode
  } catch (error) {
    // What Commander throws it has shown already; help that was asked for is no mistake.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE_STATUS
    return showError(error, io, { isJson: hasFlag(args, '--json'), dataDir: valueBehind(args, '--data') })
  }
}

const USAGE_STATUS = 2

/** These end with a command line of somebody else's. */
const WITH_COMMAND = new Set(['exec', 'sh', 'ssh'])

function prepare([name = '', ...rest]: readonly string[], program: Command): string[] {
  const command = program.commands.find((one) => WITH_COMMAND.has(name) && one.name() === name)
  return [name, ...(command === undefined ? rest : withSeparator(rest, command))]
}

/** One line for each command, for a help that also has others. */
export function clientHelp(io: CommandIo): string {
  return formatTable(
    createProgram(io).commands.map((command) => [
      `  ./dormouse ${command.name()} ${command.usage().replace(/^\[options\] ?/, '')}`.trimEnd(),
      command.description(),
    ]),
  )
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
