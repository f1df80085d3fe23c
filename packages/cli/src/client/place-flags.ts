import type { Command } from 'commander'

/** What every command takes, and whether a value follows. */
const COMMON: ReadonlyMap<string, boolean> = new Map([
  ['--json', false],
  ['--url', true],
  ['--data', true],
])

/** Puts the flags that every command has behind the words that name one: they may stand anywhere among these. */
export function placeFlags([name = '', ...rest]: readonly string[], program: Command): string[] {
  const command = program.commands.find((one) => one.name() === name)
  if (command === undefined || command.commands.length === 0) return [name, ...rest]
  const { flags, others } = takeFlags(rest)
  const [verb = '', ...more] = others
  const isNamed = command.commands.some((one) => one.name() === verb || one.aliases().includes(verb))
  return isNamed ? [name, verb, ...flags, ...more] : [name, ...others, ...flags]
}

/** Only flags are left where something to do should stand. */
export function isCommonFlag(arg: string): boolean {
  return COMMON.has(arg.split('=', 1)[0] ?? '')
}

/** Those that come first. */
function takeFlags(args: readonly string[]): { flags: readonly string[]; others: readonly string[] } {
  let end = 0
  for (let arg = args[end]; arg !== undefined; arg = args[end]) {
    const [flag = '', value] = arg.split('=', 2)
    const takesValue = COMMON.get(flag)
    if (takesValue === undefined) break
    end += takesValue && value === undefined ? 2 : 1
  }
  return { flags: args.slice(0, end), others: args.slice(end) }
}
