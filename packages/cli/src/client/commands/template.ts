import { type CreateTemplate, DormouseError, type Template, type TemplateMaterials } from 'dormouse'
import { formatBytes, formatDistance } from '../../format/amounts.ts'
import { formatFields, formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import type { Isolation } from '../create-flags.ts'
import { findSnapshot } from '../find-snapshot.ts'
import { type NetworkFlags, networkOptions } from '../network-flags.ts'
import { type RecipeFlags, recipeOf } from '../recipe-flags.ts'
import { suggestTemplate } from '../suggest-template.ts'

interface TemplateFlags extends NetworkFlags, RecipeFlags {
  readonly snapshot?: string
  readonly description?: string
  readonly from?: string
  readonly isolation?: Isolation
  readonly package?: string[]
  readonly pip?: string[]
  readonly run?: string[]
  readonly preload?: string[]
}

/** Commands of steps can be long. */
const PROGRESS_MAX = 40

export async function listTemplates(call: Call, { quiet }: { quiet?: boolean }): Promise<void> {
  const templates = await call.client.templates.list({ signal: call.signal }).all()
  if (quiet === true) return call.printNames(templates)
  const now = Date.now()
  call.printResult(
    { templates },
    formatTable([
      ['NAME', 'STATE', 'SOURCE', 'SIZE', 'CREATED', 'DESCRIPTION'],
      ...templates.map(({ name, state, progress, source, bytes, createdAt, description }) => [
        name,
        progress === undefined ? state : `${state}: ${shortened(progress)}`,
        source,
        bytes === undefined ? '-' : formatBytes(bytes),
        `${formatDistance(Date.parse(createdAt), now)} ago`,
        description ?? '',
      ]),
    ]),
  )
}

function shortened(progress: string): string {
  return progress.length <= PROGRESS_MAX ? progress : `${progress.slice(0, PROGRESS_MAX - 1)}…`
}

export async function createTemplate(call: Call, name: string, flags: TemplateFlags): Promise<void> {
  const { client, signal } = call
  const wanted = await toTemplate(call, name, flags)
  const made = await suggestTemplate(call, flags.from, client.templates.create(wanted, { signal }))
  if (made.state === 'ready') {
    call.printResult(made, `${made.name}\n`)
    return
  }
  const isShown = await showLog(call, name, wanted)
  const template = await client.templates.wait(name, { signal }).catch(async (error: unknown) => {
    // The end of the log usually has the reason.
    if (!isShown && error instanceof DormouseError && typeof error.details['logTail'] === 'string')
      call.note(error.details['logTail'].trimEnd())
    const { failedStep } = await client.templates.get(name, { signal })
    if (failedStep !== undefined)
      call.note(`Open a shell in the state before this step with \`dormouse template debug ${name}\`.`)
    throw error
  })
  call.printResult(template, `${template.name}\n`)
}

/** Shows the lines of the build as they come, each with the seconds since its beginning. False: it shows none. */
async function showLog(
  call: Call,
  name: string,
  { image, dockerfile, start }: CreateTemplate,
): Promise<boolean> {
  const { client, signal, io } = call
  // A script that installs packages wants the result.
  if ((image ?? dockerfile ?? start) === undefined && io.stderr.isTTY !== true) return false
  let began: number | undefined
  for await (const { at, text } of client.templates.log(name, { signal })) {
    began ??= Date.parse(at)
    const seconds = (Date.parse(at) - began) / 1000
    call.note(`${seconds.toFixed(1).padStart(6)} ${text}`)
  }
  return true
}

export async function showTemplate(
  call: Call,
  name: string,
  { materials: showsMaterials }: { materials?: boolean },
): Promise<void> {
  const { templates } = call.client
  if (showsMaterials === true) {
    const materials = await suggestTemplate(call, name, templates.materials(name, { signal: call.signal }))
    call.printResult(materials, formatMaterials(materials))
    return
  }
  const template = await suggestTemplate(call, name, templates.get(name, { signal: call.signal }))
  call.printResult(template, formatTemplate(template))
}

export async function removeTemplates(call: Call, names: readonly string[]): Promise<void> {
  const deleted: string[] = []
  for (const name of names) {
    await suggestTemplate(call, name, call.client.templates.delete(name, { signal: call.signal }))
    deleted.push(name)
  }
  call.printResult({ deleted }, names.map((name) => `${name}\n`).join(''))
}

async function toTemplate(call: Call, name: string, flags: TemplateFlags): Promise<CreateTemplate> {
  const { snapshot, description, from, isolation, pip, preload } = flags
  const recipe = await recipeOf(call, flags)
  const network = networkOptions(flags)
  const common = { name, ...(description === undefined ? {} : { description }) }
  const built = {
    ...(from === undefined ? {} : { from }),
    ...(isolation === undefined ? {} : { isolation }),
    ...(network === undefined ? {} : { network }),
    ...(flags.package === undefined ? {} : { packages: flags.package }),
    ...(pip === undefined ? {} : { pip }),
    ...(flags.run === undefined ? {} : { commands: flags.run }),
    ...(preload === undefined ? {} : { preload }),
    ...recipe,
  }
  if (snapshot === undefined) return { ...common, ...built }
  if (Object.keys(built).length > 0)
    throw new UsageError('--snapshot cannot be combined with flags of a build')
  const { id } = await findSnapshot(call, snapshot)
  return { ...common, snapshotId: id }
}

function formatMaterials({ items }: TemplateMaterials): string {
  return formatTable([
    ['TYPE', 'NAME', 'VERSION', 'ARCHITECTURE', 'SHA-256'],
    ...items.map(({ type, name, version, architecture, sha256 }) => [
      ...[type, name, version],
      ...[architecture ?? '-', sha256 ?? '-'],
    ]),
  ])
}

function formatTemplate(template: Template): string {
  const { bytes, logTail, materials } = template
  const fields = formatFields([
    ['name', template.name],
    ['description', template.description],
    ['state', template.state],
    ['progress', template.progress],
    ['source', template.source],
    ['built on', template.from ?? template.image],
    ['isolation', template.isolation],
    ['failed step', template.failedStep],
    ['snapshot', template.snapshotId],
    ['size', bytes === undefined ? undefined : formatBytes(bytes)],
    ['packages', materials && `${materials.count}, digest of the list ${materials.sha256}`],
    ['created', template.createdAt],
    ['error', template.error],
  ])
  return logTail === undefined ? fields : `${fields}\n${logTail.trimEnd()}\n`
}
