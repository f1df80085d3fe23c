import type { Command } from 'commander'

/** The flags that every command takes, and whether a value follows. */
const COMMON_FLAGS: ReadonlyMap<string, boolean> = new Map([
  ['--json', false],
  ['--url', true],
  ['--data', true],
])

/** These commands end with the command line of another program. */
const WITH_COMMAND_LINE = new Set(['exec', 'sh', 'ssh'])

/**
 * Arranges arguments as Commander expects them. Common flags may stand between a command and its subcommand, and `--`
 * before the command line of another program may be missing.
 */
export function normalizeArguments(args: readonly string[], program: Command): string[] {
  const [name = '', ...rest] = moveCommonFlags(args, program)
  const command = program.commands.find((one) => WITH_COMMAND_LINE.has(name) && one.name() === name)
  return [name, ...(command === undefined ? rest : withSeparator(rest, command))]
}

/** The full name of the command in `args`, such as `snapshot ls`. */
export function commandName(args: readonly string[], program: Command): string {
  const [name = '', subcommand = ''] = moveCommonFlags(args, program)
  return subcommandsOf(name, program).includes(subcommand) ? `${name} ${subcommand}` : name
}

/** The subcommands of a command whose subcommand is missing from `args`; empty when nothing is missing. */
export function missingSubcommands(args: readonly string[], program: Command): readonly string[] {
  const [name = '', subcommand] = moveCommonFlags(args, program)
  const isMissing = subcommand === undefined || COMMON_FLAGS.has(subcommand.split('=', 1)[0] ?? '')
  return isMissing ? subcommandsOf(name, program) : []
}

/** Finds a flag without parsing: error messages need some flags even if parsing fails. */
export function hasFlag(args: readonly string[], flag: string): boolean {
  return beforeSeparator(args).includes(flag)
}

export function findFlagValue(args: readonly string[], flag: string): string | undefined {
  const own = beforeSeparator(args)
  const index = own.indexOf(flag)
  return index < 0 ? own.find((arg) => arg.startsWith(`${flag}=`))?.slice(flag.length + 1) : own[index + 1]
}

/**
 * Puts `--` before the command line of another program: `exec box -u root ls -l` becomes `exec box -u root -- ls -l`.
 * Everything behind it belongs to that program, even a second `--`.
 */
export function withSeparator(args: readonly string[], { options }: Pick<Command, 'options'>): string[] {
  let positionals = 0
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] ?? ''
    if (arg === '--') break
    if (arg.startsWith('-') && arg !== '-') {
      if (options.some(({ short, long, required }) => required && (arg === short || arg === long))) index += 1
    } else if (++positionals === 2) return [...args.slice(0, index), '--', ...args.slice(index)]
  }
  return [...args]
}

/** Moves common flags behind the subcommand. */
function moveCommonFlags([name = '', ...rest]: readonly string[], program: Command): string[] {
  const command = program.commands.find((one) => one.name() === name)
  if (command === undefined || command.commands.length === 0) return [name, ...rest]
  const { flags, others } = takeLeadingFlags(rest)
  const [subcommand = '', ...more] = others
  const isKnown = command.commands.some(
    (one) => one.name() === subcommand || one.aliases().includes(subcommand),
  )
  return isKnown ? [name, subcommand, ...flags, ...more] : [name, ...others, ...flags]
}

function takeLeadingFlags(args: readonly string[]): {
  flags: readonly string[]
  others: readonly string[]
} {
  let end = 0
  for (let arg = args[end]; arg !== undefined; arg = args[end]) {
    const [flag = '', value] = arg.split('=', 2)
    const takesValue = COMMON_FLAGS.get(flag)
    if (takesValue === undefined) break
    end += takesValue && value === undefined ? 2 : 1
  }
  return { flags: args.slice(0, end), others: args.slice(end) }
}

function subcommandsOf(name: string, program: Command): string[] {
  const command = program.commands.find((one) => one.name() === name)
  return (command?.commands ?? []).map((one) => one.name())
}

function beforeSeparator(args: readonly string[]): readonly string[] {
  const end = args.indexOf('--')
  return end < 0 ? args : args.slice(0, end)
}
