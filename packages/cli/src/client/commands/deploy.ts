import { stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import type { DeployService } from 'dormouse'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { parseMount } from '../create-flags.ts'
import { type NetworkFlags, networkOptions } from '../network-flags.ts'
import { omitUndefined, omitUndefinedOrNone } from '../omit-undefined.ts'
import { type PolicyFlags, toPolicy } from '../policy-flags.ts'
import { type ReadyFlags, readyOf } from '../ready-flags.ts'
import { type ServiceFlags, toSettings } from '../service-flags.ts'

interface DeployFlags extends NetworkFlags, PolicyFlags, ReadyFlags, ServiceFlags {
  readonly name?: string
  readonly port?: number
  readonly start?: string
  readonly template?: string
  readonly image?: string
  readonly env?: Record<string, string>
  readonly secret?: readonly string[]
  readonly volume?: readonly string[]
}

/** A directory is built; everything else is the name of a template or an image. */
export async function deployService(
  call: Call,
  source: string | undefined,
  flags: DeployFlags,
): Promise<void> {
  const { client, signal } = call
  const { port } = flags
  if (port === undefined) throw new UsageError('the port of the program is missing', 'Add --port NUMBER.')
  const { dir, named } = await sourceOf(source, flags)
  const name = flags.name ?? nameOf(dir ?? source)
  const { env, start } = flags
  const request: DeployService = {
    port,
    ...named,
    ...toSettings(flags),
    ...omitUndefined({
      ...{ start, env, secrets: flags.secret && [...flags.secret], volumes: flags.volume?.map(parseMount) },
      ready: readyOf(flags),
      limits: omitUndefinedOrNone(toPolicy(flags).limits ?? {}),
      network: networkOptions(flags),
    }),
  }
  const deploying = client.services.deploy(name, request, {
    signal,
    onLog: (line) => call.note(line),
    ...(dir !== undefined && { dir }),
  })
  const service = await call.withProgress(`Deploying ${name}`, deploying)
  call.printResult(service, `${service.url}\n`)
  call.note(
    `Version ${service.version} of ${name} serves. Read its output with \`dormouse service logs ${name}\`.`,
  )
}

async function sourceOf(
  source: string | undefined,
  { template, image }: DeployFlags,
): Promise<{ dir?: string; named: Pick<DeployService, 'template' | 'image'> }> {
  const named = omitUndefined({ template, image })
  if (source === undefined) return { named }
  if ((await stat(source).catch(() => undefined))?.isDirectory() === true)
    return { dir: resolve(source), named }
  if (/^\.{0,2}\//.test(source))
    throw new UsageError(`${source} is no directory`, 'Name the directory to deploy.')
  if (template !== undefined || image !== undefined)
    throw new UsageError(`${source} is no directory`, 'Leave it out, or leave out --template and --image.')
  return { named: /[:/]/.test(source) ? { image: source } : { template: source } }
}

function nameOf(source: string | undefined): string {
  const name = basename(source ?? '').replace(/[:@].*$/, '')
  if (name !== '') return name
  throw new UsageError('the service needs a name', 'Add --name NAME.')
}
