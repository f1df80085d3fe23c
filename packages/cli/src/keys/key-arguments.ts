import { parseArgs } from 'node:util'
import { parseInput } from '@dormouse/contracts'
import { createKeySchema, type UpdateKeyBody, updateKeySchema } from '@dormouse/contracts/http'
import { parseBytes, parseNumber } from '../format/amounts.ts'

/** A mistake in what was typed. */
export class KeyUsageError extends Error {}

export const KEY_USAGE = `  ./dormouse key create NAME [--scope read|run|admin] [limits] [--save]
  ./dormouse key update ID [--name NAME] [limits, or \`none\` to take one away]
  ./dormouse key list
  ./dormouse key revoke ID
  limits: --max-sandboxes N, --max-running N, --max-memory 4GiB, --max-disk 50GiB, --rate N [--burst N] (per second)
  limits of one sandbox: --max-sandbox-memory 4GiB, --max-sandbox-cpus N, --max-sandbox-pids N, --max-sandbox-disk 20GiB, --max-sandbox-files N
  --json for all of them
`

export type KeyRequest = { readonly json: boolean } & (
  | { readonly action: 'create'; readonly save: boolean; readonly key: CreateKeyRequest }
  | { readonly action: 'update'; readonly id: string; readonly change: UpdateKeyBody }
  | { readonly action: 'list' }
  | { readonly action: 'revoke'; readonly id: string }
)
type CreateKeyRequest = ReturnType<typeof parseCreate>

const text = { type: 'string' } as const
const LIMITS = {
  'max-sandboxes': text,
  'max-running': text,
  'max-memory': text,
  'max-disk': text,
  'max-sandbox-memory': text,
  'max-sandbox-cpus': text,
  'max-sandbox-pids': text,
  'max-sandbox-disk': text,
  'max-sandbox-files': text,
  rate: text,
  burst: text,
}
type Limits = { readonly [Name in keyof typeof LIMITS]?: string | undefined }
const json = { type: 'boolean' } as const

export function parseKeyArguments([action, ...args]: readonly string[]): KeyRequest {
  switch (action) {
    case 'create': {
      const save = { type: 'boolean' } as const
      const { values, target } = parse(args, { json, save, scope: text, ...LIMITS }, 'a NAME')
      return {
        action,
        json: values.json ?? false,
        save: values.save ?? false,
        key: parseCreate(target, values),
      }
    }
    case 'update': {
      const { values, target } = parse(args, { json, name: text, ...LIMITS }, 'the ID of a key')
      return { action, json: values.json ?? false, id: target, change: parseUpdate(values) }
    }
    case 'revoke': {
      const { values, target } = parse(args, { json }, 'the ID of a key')
      return { action, json: values.json ?? false, id: target }
    }
    case 'list': {
      const { values, positionals } = parsed(args, { json })
      if (positionals.length > 0) throw new KeyUsageError(`"${positionals[0]}" is not understood here`)
      return { action, json: values.json ?? false }
    }
    default:
      throw new KeyUsageError('`key` needs `create`, `update`, `list` or `revoke`')
  }
}

function parseCreate(name: string, { scope, ...limits }: Limits & { readonly scope?: string | undefined }) {
  const { quotas, rateLimit } = parseLimits(limits)
  const body = {
    name,
    ...(scope === undefined ? {} : { scopes: scope.split(',') }),
    quotas: withoutNulls(quotas),
    ...(rateLimit === null || rateLimit === undefined ? {} : { rateLimit }),
  }
  return parseInput(createKeySchema, body, 'key create')
}

function parseUpdate({ name, ...limits }: Limits & { readonly name?: string | undefined }) {
  const { quotas, rateLimit } = parseLimits(limits)
  const body = {
    ...(name === undefined ? {} : { name }),
    ...(Object.keys(quotas).length === 0 ? {} : { quotas }),
    ...(rateLimit === undefined ? {} : { rateLimit }),
  }
  return parseInput(updateKeySchema, body, 'key update')
}

function parseLimits(limits: Limits) {
  const given = {
    sandboxes: parseAmount('--max-sandboxes', limits['max-sandboxes'], parseNumber),
    running: parseAmount('--max-running', limits['max-running'], parseNumber),
    memoryBytes: parseAmount('--max-memory', limits['max-memory'], parseBytes),
    diskBytes: parseAmount('--max-disk', limits['max-disk'], parseBytes),
    sandboxMemoryBytes: parseAmount('--max-sandbox-memory', limits['max-sandbox-memory'], parseBytes),
    sandboxCpus: parseAmount('--max-sandbox-cpus', limits['max-sandbox-cpus'], parseNumber),
    sandboxPids: parseAmount('--max-sandbox-pids', limits['max-sandbox-pids'], parseNumber),
    sandboxDiskBytes: parseAmount('--max-sandbox-disk', limits['max-sandbox-disk'], parseBytes),
    sandboxFiles: parseAmount('--max-sandbox-files', limits['max-sandbox-files'], parseNumber),
  }
  const perSecond = parseAmount('--rate', limits.rate, parseNumber)
  const burst = parseAmount('--burst', limits.burst, parseNumber)
  if (burst !== undefined && typeof perSecond !== 'number') throw new KeyUsageError('--burst needs --rate')
  const quotas = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  // A second's worth may come at once, unless told otherwise.
  const rateLimit =
    typeof perSecond === 'number' ? { perSecond, burst: burst ?? Math.ceil(perSecond) } : perSecond
  return { quotas, rateLimit }
}

function parseAmount(
  flag: string,
  value: string | undefined,
  parseValue: (text: string) => number | undefined,
): number | null | undefined {
  if (value === undefined) return undefined
  if (value === 'none') return null
  const amount = parseValue(value)
  if (amount === undefined) throw new KeyUsageError(`${flag} does not understand "${value}"`)
  return amount
}

function withoutNulls(quotas: Record<string, number | null | undefined>) {
  return Object.fromEntries(Object.entries(quotas).filter(([, value]) => value !== null))
}

type Options = NonNullable<Parameters<typeof parseArgs>[0]>['options'] & object

function parsed<Known extends Options>(args: readonly string[], options: Known) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
  } catch (error) {
    throw new KeyUsageError(error instanceof Error ? error.message : String(error))
  }
}

function parse<Known extends Options>(args: readonly string[], options: Known, what: string) {
  const { values, positionals } = parsed(args, options)
  const [target, ...more] = positionals
  if (target === undefined) throw new KeyUsageError(`this needs ${what}`)
  if (more.length > 0) throw new KeyUsageError(`"${more[0]}" is not understood here`)
  return { values, target }
}
