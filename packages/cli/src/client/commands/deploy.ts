import { stat } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import type { DeployService } from 'dormouse'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { didYouMean } from '../closest-names.ts'
import { type Isolation, parseMount } from '../create-flags.ts'
import { type NetworkFlags, networkOptions } from '../network-flags.ts'
import { omitUndefined, omitUndefinedOrNone } from '../omit-undefined.ts'
import { type PolicyFlags, toPolicy } from '../policy-flags.ts'
import { type ReadyFlags, readyOf } from '../ready-flags.ts'
import { imageOf, isImagePath, readArguments, readLogins } from '../recipe-flags.ts'
import { type ServiceFlags, toSettings } from '../service-flags.ts'

interface DeployFlags extends NetworkFlags, PolicyFlags, ReadyFlags, ServiceFlags {
  readonly name?: string
  readonly port?: number
  readonly start?: string
  readonly template?: string
  readonly image?: string
  readonly login?: readonly string[]
  readonly buildArg?: readonly string[]
  readonly target?: string
  readonly cwd?: string
  readonly user?: string
  readonly isolation?: Isolation
  readonly env?: Record<string, string>
  readonly secret?: readonly string[]
  readonly volume?: readonly string[]
}

/** A directory is built; an archive or an OCI layout is an image; everything else names a template or an image. */
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
  const { env, start, target, cwd, user, isolation } = flags
  if (dir === undefined && named.template === source) await requireTemplate(call, named.template)
  const image = named.image === undefined ? undefined : await imageOf(call, named.image)
  const request: DeployService = {
    port,
    ...named,
    ...toSettings(flags),
    ...omitUndefined({
      image,
      registryAuth: flags.login === undefined ? undefined : await readLogins(call, flags.login),
      buildArgs: flags.buildArg && readArguments(flags.buildArg),
      ...{ target, cwd, user, isolation },
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
  const found = await stat(source).catch(() => undefined)
  if (found?.isDirectory() === true && !(await isLayout(source))) return { dir: resolve(source), named }
  if (found === undefined && /^\.{0,2}\//.test(source))
    throw new UsageError(
      `${source} is not there`,
      'Name a directory, an archive of an image, or an OCI layout.',
    )
  if (template !== undefined || image !== undefined)
    throw new UsageError(`${source} is no directory`, 'Leave it out, or leave out --template and --image.')
  if (found?.isDirectory() === true) return { named: { image: resolve(source) } }
  return { named: isImagePath(source) || /[:/]/.test(source) ? { image: source } : { template: source } }
}

/** Before anything is made: a misspelt directory looks like a template. */
async function requireTemplate({ client, signal }: Call, name: string | undefined): Promise<void> {
  if (name === undefined) return
  const names = (await client.templates.list({ signal }).all()).map((template) => template.name)
  if (names.includes(name)) return
  throw new UsageError(
    `${name} is neither a directory here nor a template`,
    `${didYouMean(name, names)}Run \`dormouse template ls\` to list templates.`,
  )
}

async function isLayout(directory: string): Promise<boolean> {
  return (await stat(join(directory, 'oci-layout')).catch(() => undefined)) !== undefined
}

function nameOf(source: string | undefined): string {
  const name = basename(source ?? '').replace(/[:@].*$|\.(tar|tar\.gz|tgz|oci)$/, '')
  if (name !== '') return name
  throw new UsageError('the service needs a name', 'Add --name NAME.')
}
