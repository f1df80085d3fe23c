import { parseInput } from '@dormouse/contracts'
import {
  type CreateKeyBody,
  createKeySchema,
  type UpdateKeyBody,
  updateKeySchema,
} from '@dormouse/contracts/http'
import { Command, CommanderError, Option } from 'commander'
import { UsageError } from '../client/cli-error.ts'
import { bytesFlag, numberFlag } from '../client/flags.ts'

export type KeyRequest = { readonly json: boolean } & (
  | {
      readonly action: 'create'
      readonly save: boolean
      /** Print it in the form that E2B's clients accept. */
      readonly e2b: boolean
      readonly key: CreateKeyBody
    }
  | { readonly action: 'update'; readonly id: string; readonly change: UpdateKeyBody }
  | { readonly action: 'list' }
  | { readonly action: 'revoke'; readonly id: string }
)

/** Flags that set a quota of a key, by the name of the quota in the API. */
const QUOTA_OPTIONS: Readonly<Record<string, Option>> = {
  sandboxes: limit('--max-sandboxes', 'N', 'sandboxes, awake or asleep'),
  running: limit('--max-running', 'N', 'running sandboxes'),
  memoryBytes: limit('--max-memory', '4GiB', 'memory of all running sandboxes'),
  diskBytes: limit('--max-disk', '50GiB', 'disk space of all sandboxes'),
  sandboxMemoryBytes: limit('--max-sandbox-memory', '4GiB', 'memory of one sandbox'),
  sandboxCpus: limit('--max-sandbox-cpus', 'N', 'CPUs of one sandbox'),
  sandboxPids: limit('--max-sandbox-pids', 'N', 'processes of one sandbox'),
  sandboxDiskBytes: limit('--max-sandbox-disk', '20GiB', 'disk space of one sandbox'),
  sandboxFiles: limit('--max-sandbox-files', 'N', 'files of one sandbox'),
}
const RATE = limit('--rate', 'N', 'requests per second')
const BURST = limit('--burst', 'N', 'requests at once (default: those of one second)')

/** Removes a limit. */
const NONE = 'none'

type Values = Readonly<Record<string, unknown>>

/** Throws a UsageError for a mistake on the command line. */
export function parseKeyArguments(args: readonly string[]): KeyRequest {
  const requests: KeyRequest[] = []
  try {
    createKeyProgram((request) => requests.push(request)).parse([...args], { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    throw new UsageError(error.message.replace(/^error: /, ''), keyUsageHint(args))
  }
  const [request] = requests
  if (request === undefined) throw new UsageError('`key` needs `create`, `update`, `list` or `revoke`')
  return request
}

/** The help of one subcommand of `key`; without a known one, of all. */
export function keyHelp(subcommand?: string): string {
  const { commands } = createKeyProgram(() => {})
  const chosen = commands.filter((command) => command.name() === subcommand)
  return (chosen.length > 0 ? chosen : commands).map((command) => command.helpInformation()).join('\n')
}

function keyUsageHint([subcommand = '']: readonly string[]): string {
  return `Run \`./dormouse ${/^[a-z]+$/.test(subcommand) ? `key ${subcommand}` : 'key'} --help\` for its usage.`
}

function createKeyProgram(onRequest: (request: KeyRequest) => void): Command {
  const program = new Command('./dormouse key').exitOverride().helpCommand(false).helpOption(false)
  // The caller prints errors.
  program.configureOutput({ writeErr: () => {}, writeOut: () => {} })
  program.action((_options, { args: [unknown] }: Command) => {
    const reason = unknown === undefined ? '' : `, not "${unknown}"`
    throw new UsageError(
      `\`key\` needs \`create\`, \`update\`, \`list\` or \`revoke\`${reason}`,
      keyUsageHint([]),
    )
  })
  program.allowExcessArguments().allowUnknownOption()
  const define = (usage: string, summary: string, options: readonly Option[]) => {
    const command = program.command(usage).description(summary).allowExcessArguments(false)
    for (const option of options) command.addOption(option)
    return command.option('--json', 'print JSON')
  }
  const limits = [...Object.values(QUOTA_OPTIONS), RATE, BURST]
  define('create <name>', 'create a key', [
    new Option('--scope <scope>', 'read, run or admin (default: run)'),
    new Option('--save', 'write the key to client.json, for commands on this machine'),
    new Option('--e2b', "print the key in the form that E2B's clients accept"),
    ...limits,
  ]).action((name: string, values: Values) =>
    onRequest({
      action: 'create',
      json: values['json'] === true,
      save: values['save'] === true,
      e2b: values['e2b'] === true,
      key: toCreateBody(name, values),
    }),
  )
  define('update <id>', 'change a key; the limit `none` removes a limit', [
    new Option('--name <name>', 'the new name'),
    ...limits,
  ]).action((id: string, values: Values) =>
    onRequest({ action: 'update', json: values['json'] === true, id, change: toUpdateBody(values) }),
  )
  define('list', 'list keys', []).action((values: Values) =>
    onRequest({ action: 'list', json: values['json'] === true }),
  )
  define('revoke <id>', 'revoke a key', []).action((id: string, values: Values) =>
    onRequest({ action: 'revoke', json: values['json'] === true, id }),
  )
  return program
}

/** The example says whether the limit is a size or a number. */
function limit(flag: string, example: string, summary: string): Option {
  const parse = example === 'N' ? numberFlag(flag) : bytesFlag(flag)
  return new Option(`${flag} <${example}>`, summary).argParser((text) => (text === NONE ? NONE : parse(text)))
}

function toCreateBody(name: string, values: Values): CreateKeyBody {
  const { quotas, rateLimit } = toLimits(values)
  const { scope } = values
  const body = {
    name,
    ...(typeof scope === 'string' ? { scopes: scope.split(',') } : {}),
    quotas: Object.fromEntries(Object.entries(quotas).filter(([, value]) => value !== null)),
    ...(rateLimit === null || rateLimit === undefined ? {} : { rateLimit }),
  }
  return parseInput(createKeySchema, body, 'key create')
}

function toUpdateBody(values: Values): UpdateKeyBody {
  const { quotas, rateLimit } = toLimits(values)
  const { name } = values
  const body = {
    ...(name === undefined ? {} : { name }),
    ...(Object.keys(quotas).length === 0 ? {} : { quotas }),
    ...(rateLimit === undefined ? {} : { rateLimit }),
  }
  return parseInput(updateKeySchema, body, 'key update')
}

/** `null` removes a limit. */
function toLimits(values: Values) {
  const limitOf = (option: Option) => {
    const value = values[option.attributeName()] as number | typeof NONE | undefined
    return value === NONE ? null : value
  }
  const quotas = Object.fromEntries(
    Object.entries(QUOTA_OPTIONS)
      .map(([quota, option]) => [quota, limitOf(option)] as const)
      .filter(([, value]) => value !== undefined),
  )
  const [rate, burst] = [limitOf(RATE), limitOf(BURST)]
  if (burst !== undefined && typeof rate !== 'number') throw new UsageError('--burst needs --rate')
  const rateLimit = typeof rate === 'number' ? { perSecond: rate, burst: burst ?? Math.ceil(rate) } : rate
  return { quotas, rateLimit }
}
