import { type CreateOptions, Sandbox } from 'dormouse'
import { formatMs } from '../../format/amounts.ts'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { type NetworkFlags, networkOptions } from '../network-flags.ts'
import { omitUndefined } from '../omit-undefined.ts'
import { type PolicyFlags, toPolicy } from '../policy-flags.ts'

export interface CreateFlags extends NetworkFlags, PolicyFlags {
  readonly name?: string
  readonly template?: string
  readonly getOrCreate?: boolean
  readonly ephemeral?: boolean
  readonly env?: Record<string, string>
  readonly metadata?: Record<string, string>
  readonly volume?: readonly string[]
  readonly secret?: readonly string[]
}

export async function create(call: Call, argument: string | undefined, flags: CreateFlags): Promise<void> {
  const { client, signal } = call
  const name = argument ?? flags.name
  if (argument !== undefined && flags.name !== undefined && argument !== flags.name)
    throw new UsageError(`there are two names: "${argument}" and "${flags.name}"`)
  const options = toOptions(flags)
  const began = performance.now()
  const sandbox = await call.withProgress('Creating a sandbox', make())
  const took = formatMs(performance.now() - began)
  call.printResult(sandbox.info, `${sandbox.id}\n`)
  call.note(
    `${name ?? sandbox.id} is ${sandbox.info.state} (${took}). Open a shell with \`dormouse sh ${name ?? sandbox.id}\`.`,
  )

  function make(): Promise<Sandbox> {
    if (flags.getOrCreate !== true)
      return Sandbox.create({ ...options, ...(name === undefined ? {} : { name }) }, { client, signal })
    if (name === undefined) throw new UsageError('--get-or-create needs a name')
    return Sandbox.getOrCreate(name, options, { client, signal })
  }
}

function toOptions(flags: CreateFlags): Omit<CreateOptions, 'name'> {
  const { template, ephemeral, env, metadata } = flags
  return {
    ...toPolicy(flags),
    ...omitUndefined({
      template,
      ephemeral,
      env,
      metadata,
      volumes: flags.volume?.map(parseMount),
      network: networkOptions(flags),
      secrets: flags.secret && [...flags.secret],
    }),
  }
}

/** Parses volume:path or volume:path:ro. */
export function parseMount(text: string): { volume: string; path: string; readOnly: boolean } {
  const { volume, path, mode } =
    /^(?<volume>[^:]+):(?<path>\/[^:]*)(?::(?<mode>ro|rw))?$/.exec(text)?.groups ?? {}
  if (volume === undefined || path === undefined)
    throw new UsageError(
      `--volume has an invalid value "${text}"`,
      'Use -v VOLUME:/PATH or -v VOLUME:/PATH:ro.',
    )
  return { volume, path, readOnly: mode === 'ro' }
}
