import { Sandbox } from 'dormouse'
import { formatMs } from '../../format/amounts.ts'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { type CreateFlags, toCreateOptions } from '../create-flags.ts'
import { suggestTemplate } from '../suggest-template.ts'

interface NamedFlags extends CreateFlags {
  readonly name?: string
  readonly getOrCreate?: boolean
  readonly ephemeral?: boolean
}

export async function create(call: Call, argument: string | undefined, flags: NamedFlags): Promise<void> {
  const { client, signal } = call
  const name = argument ?? flags.name
  if (argument !== undefined && flags.name !== undefined && argument !== flags.name)
    throw new UsageError(`there are two names: "${argument}" and "${flags.name}"`)
  const { ephemeral } = flags
  const options = {
    ...(await toCreateOptions(call, flags)),
    ...(ephemeral === undefined ? {} : { ephemeral }),
  }
  const began = performance.now()
  const sandbox = await call.withProgress('Creating a sandbox', suggestTemplate(call, flags.template, make()))
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
