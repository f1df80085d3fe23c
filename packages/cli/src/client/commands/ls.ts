import type { ListSandboxes, SandboxInfo } from 'dormouse'
import { formatDistance } from '../../format/amounts.ts'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'

interface LsFlags extends Pick<ListSandboxes, 'state' | 'template' | 'metadata'> {
  readonly quiet?: boolean
}

export async function ls(call: Call, { quiet, state, template, metadata }: LsFlags): Promise<void> {
  const { client, signal } = call
  const sandboxes = await client.listSandboxes({ state, template, metadata, signal }).all()
  if (quiet === true) return call.printNames(sandboxes)
  call.printResult({ sandboxes }, formatSandboxes(sandboxes))
  if (sandboxes.length === 0) call.note('There are no sandboxes. Create one with `dormouse create`.')
}

/** The name; the id of a sandbox without a name. */
export function shortName({ id, name }: Pick<SandboxInfo, 'id' | 'name'>): string {
  return name ?? id
}

/** running, standby (frozen), standby (stored). */
export function stateText({ state, tier }: Pick<SandboxInfo, 'state' | 'tier'>): string {
  return tier === undefined ? state : `${state} (${tier})`
}

/** What the server made a sandbox without a name for, such as `(template build)`. */
function purposeOf({ metadata }: SandboxInfo): string | undefined {
  const service = metadata['dormouse/service']
  const purpose = service === undefined ? metadata['dormouse/purpose'] : `service ${service}`
  return purpose === undefined ? undefined : `(${purpose})`
}

function formatSandboxes(sandboxes: readonly SandboxInfo[], now = Date.now()): string {
  if (sandboxes.length === 0) return ''
  return formatTable([
    ['ID', 'NAME', 'STATE', 'TEMPLATE', 'USED', 'CREATED'],
    ...sandboxes.map((sandbox) => [
      sandbox.id,
      sandbox.name ?? purposeOf(sandbox) ?? '-',
      stateText(sandbox),
      sandbox.template,
      `${formatDistance(Date.parse(sandbox.lastActiveAt), now)} ago`,
      `${formatDistance(Date.parse(sandbox.createdAt), now)} ago`,
    ]),
  ])
}
