import { type Argument, type Command, Help, type Option } from 'commander'

/** Text below the help of a command. */
const examples = new WeakMap<Command, readonly string[]>()
const notes = new WeakMap<Command, string>()

export function addExamples(command: Command, lines: readonly string[]): void {
  examples.set(command, lines)
}

export function addNote(command: Command, text: string): void {
  notes.set(command, text)
}

export class TextHelp extends Help {
  override formatHelp(command: Command, helper: Help): string {
    const lines = examples.get(command) ?? []
    const note = notes.get(command)
    return [
      super.formatHelp(command, helper),
      ...(lines.length === 0 ? [] : [`\nExamples:\n${lines.map((line) => `  $ ${line}\n`).join('')}`]),
      ...(note === undefined ? [] : [`\n${note}\n`]),
    ].join('')
  }
}

/** Help as JSON. */
export class JsonHelp extends Help {
  override formatHelp(command: Command, helper: Help): string {
    const described = {
      usage: helper.commandUsage(command),
      summary: command.description(),
      arguments: command.registeredArguments.map(describeArgument),
      options: helper.visibleOptions(command).map(describeOption),
      commands: helper.visibleCommands(command).map((below) => ({
        usage: helper.subcommandTerm(below),
        summary: below.description(),
      })),
      examples: examples.get(command) ?? [],
      note: notes.get(command),
    }
    return `${JSON.stringify(described, null, 2)}\n`
  }
}

function describeArgument(argument: Argument) {
  const { required, variadic, description, argChoices: choices } = argument
  return { name: argument.name(), required, variadic, description, choices }
}

function describeOption({ flags, description, defaultValue, argChoices: choices }: Option) {
  return { flags, description, default: defaultValue as unknown, choices }
}
