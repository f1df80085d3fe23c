import { type Argument, Command, type Help, type Option } from 'commander'
import { Call, type CommonOptions } from './call.ts'
import type { CommandIo } from './command-io.ts'
import { defineExecutionCommands } from './define-execution-commands.ts'
import { defineJobCommands } from './define-job-commands.ts'
import { defineLifecycleCommands } from './define-lifecycle-commands.ts'
import { defineNodeCommands } from './define-node-commands.ts'
import { definePortCommands } from './define-port-commands.ts'
import { defineReportCommands } from './define-report-commands.ts'
import { defineResourceCommands } from './define-resource-commands.ts'
import { defineScheduleCommands } from './define-schedule-commands.ts'
import { defineServiceCommands } from './define-service-commands.ts'
import { defineWebhookCommands } from './define-webhook-commands.ts'
import { addExamples, JsonHelp, TextHelp } from './help.ts'

/** The code of a command. Returns its exit status; undefined means 0. */
// biome-ignore lint/suspicious/noExplicitAny: Commander passes arguments that only the definition describes
export type Action = (call: Call, ...args: any[]) => Promise<number | undefined> | Promise<void>

export interface CommandDefinition {
  /** Name and arguments in the syntax of Commander. */
  readonly usage: string
  readonly summary: string
  /** Arguments after those of `usage`, for arguments with a fixed set of values. */
  readonly arguments?: readonly Argument[]
  readonly options?: readonly Option[]
  /** Imports the code of this command only, so that commands start fast. */
  readonly load: () => Promise<Action>
  readonly isDefault?: boolean
  readonly aliases?: readonly string[]
  /** Shown below the help. */
  readonly examples?: readonly string[]
}

export interface Finished {
  exitCode: number
}

export interface ProgramOptions {
  /** Receives the exit status of the command. */
  readonly finished?: Finished
  /** Help is JSON, and usage errors are thrown without being printed. */
  readonly isJson?: boolean
}

/** The commands as help shows them. */
const GROUPS: readonly (readonly [title: string, ...((program: Command, define: Define) => void)[]])[] = [
  ['Sandboxes', defineLifecycleCommands],
  ['Run things inside', defineExecutionCommands],
  ['See what happens', defineReportCommands],
  ['Jobs, schedules and webhooks', defineJobCommands, defineScheduleCommands, defineWebhookCommands],
  ['Ports and services', definePortCommands, defineServiceCommands],
  ['Templates, volumes, secrets and keys', defineResourceCommands],
  ['Hosts of a cluster', defineNodeCommands],
]

/** All client commands. */
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
  const define = (parent: Command, definition: CommandDefinition) => {
    const { usage, summary, options = [], load, examples = [] } = definition
    const command = parent.command(usage, definition.isDefault === true ? { isDefault: true } : {})
    command.description(summary)
    for (const alias of definition.aliases ?? []) command.alias(alias)
    for (const argument of definition.arguments ?? []) command.addArgument(argument)
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
  for (const [title, ...defineAll] of GROUPS) {
    program.commandsGroup(title)
    for (const defineSome of defineAll) defineSome(program, define)
  }
  return program
}

/** Passes the format of the help on to subcommands. */
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

export type Define = (parent: Command, definition: CommandDefinition) => void

function addCommonOptions(command: Command): void {
  command
    .option('--json', 'print JSON')
    .option('--url <address>', 'the server (default: DORMOUSE_URL, else the server on this machine)')
    .option('--data <directory>', 'the data directory of the server on this machine (default: DORMOUSE_DATA)')
}
