import { type Argument, Command, type Help, type Option } from 'commander'
import { Call, type CommonOptions } from './call.ts'
import type { CommandIo } from './command-io.ts'
import { declareDataCommands } from './declare-data.ts'
import { declareLifeCommands } from './declare-life.ts'
import { declarePortCommands } from './declare-ports.ts'
import { declareViewCommands } from './declare-views.ts'
import { declareWorkCommands } from './declare-work.ts'
import { addExamples, JsonHelp, TextHelp } from './help.ts'

/** What a command does: answers its exit status, 0 when nothing. */
// biome-ignore lint/suspicious/noExplicitAny: Commander hands over what the declaration says, which no type follows
export type Action = (call: Call, ...typed: any[]) => Promise<number | undefined> | Promise<void>

export interface Declaration {
  /** With its arguments, as Commander reads them. */
  readonly usage: string
  readonly summary: string
  /** Behind those of `usage`: arguments of which only some values are right. */
  readonly arguments?: readonly Argument[]
  readonly options?: readonly Option[]
  /** Loaded when it is typed: a command does not wait for the others. */
  readonly load: () => Promise<Action>
  readonly isDefault?: boolean
  readonly aliases?: readonly string[]
  /** How it is used, below the help. */
  readonly examples?: readonly string[]
}

export interface Finished {
  exitCode: number
}

export interface ProgramOptions {
  /** Hears how the command that was typed ended. */
  readonly finished?: Finished
  /** Help is JSON; mistakes are thrown only, and shown by who catches them. */
  readonly isJson?: boolean
}

/** All that can be typed. */
export function createProgram(
  io: CommandIo,
  { finished = { exitCode: 0 }, isJson = false }: ProgramOptions = {},
): Command {
  const program = new ClientCommand('dormouse', isJson)
    .description('The perpetual sandbox for AI agents: sandboxes that never forget.')
    .enablePositionalOptions()
    .helpCommand(false)
    .showSuggestionAfterError(true)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      outputError: (text, write) => {
        if (!isJson) write(text.replace(/^error: /, 'dormouse: '))
      },
      getOutHelpWidth: () => io.stdout.columns || 100,
      getErrHelpWidth: () => io.stderr.columns || 100,
    })
  const declare = (parent: Command, declaration: Declaration) => {
    const { usage, summary, options = [], load, examples = [] } = declaration
    const command = parent.command(usage, declaration.isDefault === true ? { isDefault: true } : {})
    command.description(summary)
    for (const alias of declaration.aliases ?? []) command.alias(alias)
    for (const argument of declaration.arguments ?? []) command.addArgument(argument)
    for (const option of options) command.addOption(option)
    addCommonOptions(command)
    addExamples(
      command,
      examples.map((line) => `dormouse ${line}`),
    )
    command.action(async (...typed: unknown[]) => {
      const action = await load()
      const given = typed.slice(0, -1)
      const call = new Call(io, given.at(-1) as CommonOptions)
      finished.exitCode = (await action(call, ...given)) ?? 0
    })
  }
  declareLifeCommands(program, declare)
  declareWorkCommands(program, declare)
  declarePortCommands(program, declare)
  declareDataCommands(program, declare)
  declareViewCommands(program, declare)
  return program
}

/** Commands are made by the one above them, and have its way to help. */
class ClientCommand extends Command {
  readonly #isJson: boolean

  constructor(name: string | undefined, isJson: boolean) {
    super(name)
    this.#isJson = isJson
  }

  override createCommand(name?: string): ClientCommand {
    return new ClientCommand(name, this.#isJson)
  }

  override createHelp(): Help {
    return Object.assign(this.#isJson ? new JsonHelp() : new TextHelp(), this.configureHelp())
  }
}

export type Declare = (parent: Command, declaration: Declaration) => void

function addCommonOptions(command: Command): void {
  command
    .option('--json', 'print JSON for programs')
    .option('--url <address>', 'the server (else DORMOUSE_URL, else the one of this machine)')
    .option('--data <directory>', 'where the server of this machine keeps its data (else DORMOUSE_DATA)')
}
