import type { CreateTemplate, Template, TemplateMaterials } from 'dormouse'
import { formatBytes, formatDistance } from '../../format/amounts.ts'
import { formatFields, formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { findSnapshot } from '../find-snapshot.ts'
import { type NetworkFlags, networkOptions } from '../network-flags.ts'
import { type RecipeFlags, recipeOf } from '../recipe-flags.ts'
import { suggestTemplate } from '../suggest-template.ts'

interface TemplateFlags extends NetworkFlags, RecipeFlags {
  readonly snapshot?: string
  readonly description?: string
  readonly from?: string
  readonly package?: string[]
  readonly pip?: string[]
  readonly run?: string[]
  readonly preload?: string[]
}

export async function listTemplates(call: Call, { quiet }: { quiet?: boolean }): Promise<void> {
  const templates = await call.client.templates.list({ signal: call.signal }).all()
  if (quiet === true) return call.printNames(templates)
  const now = Date.now()
  call.printResult(
    { templates },
    formatTable([
      ['NAME', 'STATE', 'SOURCE', 'SIZE', 'CREATED', 'DESCRIPTION'],
      ...templates.map(({ name, state, source, bytes, createdAt, description }) => [
        name,
        state,
        source,
        bytes === undefined ? '-' : formatBytes(bytes),
        `${formatDistance(Date.parse(createdAt), now)} ago`,
        description ?? '',
      ]),
    ]),
  )
}

export async function createTemplate(call: Call, name: string, flags: TemplateFlags): Promise<void> {
  const { client, signal } = call
  const wanted = await toTemplate(call, name, flags)
  const made = await suggestTemplate(call, flags.from, client.templates.create(wanted, { signal }))
  if (made.state === 'ready') {
    call.printResult(made, `${made.name}\n`)
    return
  }
  await showLog(call, name, wanted)
  const template = await client.templates.wait(name, { signal }).catch(async (error: unknown) => {
    const { failedStep } = await client.templates.get(name, { signal })
    if (failedStep !== undefined)
      call.note(`Open a shell in the state before this step with \`dormouse template debug ${name}\`.`)
    throw error
  })
  call.printResult(template, `${template.name}\n`)
}

/** The lines of the build as they come, each with the seconds since its beginning. */
async function showLog(
  call: Call,
  name: string,
  { image, dockerfile, start }: CreateTemplate,
): Promise<void> {
  const { client, signal, io } = call
  // A script that installs packages wants the result.
  if ((image ?? dockerfile ?? start) === undefined && io.stderr.isTTY !== true) return
  let began: number | undefined
  for await (const { at, text } of client.templates.log(name, { signal })) {
    began ??= Date.parse(at)
    const seconds = (Date.parse(at) - began) / 1000
    call.note(`${seconds.toFixed(1).padStart(6)} ${text}`)
  }
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
  const { snapshot, description, from, pip, preload } = flags
  const recipe = await recipeOf(call, flags)
  const network = networkOptions(flags)
  const common = { name, ...(description === undefined ? {} : { description }) }
  const built = {
    ...(from === undefined ? {} : { from }),
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
    ['source', template.source],
    ['built on', template.from ?? template.image],
    ['failed step', template.failedStep],
    ['snapshot', template.snapshotId],
    ['size', bytes === undefined ? undefined : formatBytes(bytes)],
    ['packages', materials && `${materials.count}, digest of the list ${materials.sha256}`],
    ['created', template.createdAt],
    ['error', template.error],
  ])
  return logTail === undefined ? fields : `${fields}\n${logTail.trimEnd()}\n`
}
