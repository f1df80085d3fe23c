import { type Dormouse, DormouseError, Sandbox } from 'dormouse'
import { Problem, UsageProblem } from './problem.ts'

/** How a route names a sandbox; anything else would be another route. */
const REFERENCE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/
const SHOWN_MAX = 8

/** A sandbox by its id or name, or by the beginning of either if only one has it. */
export async function findSandbox(client: Dormouse, ref: string, signal: AbortSignal): Promise<Sandbox> {
  if (!REFERENCE.test(ref))
    throw new UsageProblem(
      `"${ref}" is neither the name nor the id of a sandbox`,
      '`dormouse ls` lists them.',
    )
  try {
    return await Sandbox.connect(ref, { client, signal })
  } catch (error) {
    if (!(error instanceof DormouseError) || error.code !== 'not_found') throw error
  }
  const all = await client.listSandboxes({ signal }).all()
  const info = pick(ref, all, { what: 'sandbox', idPrefix: 'sb-', list: 'dormouse ls' })
  return new Sandbox(client, info)
}

interface Named {
  readonly id: string
  readonly name?: string | undefined
}

/** The one that is meant; throws when it is none or several. */
export function pick<Item extends Named>(
  ref: string,
  items: readonly Item[],
  { what, idPrefix, list }: { what: string; idPrefix: string; list: string },
): Item {
  const exact = items.filter(({ id, name }) => id === ref || name === ref)
  const begins = items.filter(
    ({ id, name }) => id.startsWith(ref) || id.startsWith(idPrefix + ref) || name?.startsWith(ref) === true,
  )
  const matches = exact.length > 0 ? exact : begins
  const [match, ...others] = matches
  if (match === undefined)
    throw new Problem('not_found', `There is no ${what} "${ref}"`, {
      hint: `\`${list}\` lists what there is.`,
    })
  if (others.length > 0) {
    const shown = matches
      .slice(0, SHOWN_MAX)
      .map(({ id, name }) => (name === undefined ? id : `${name} (${id})`))
    const more = matches.length > SHOWN_MAX ? ` and ${matches.length - SHOWN_MAX} more` : ''
    throw new Problem('ambiguous', `"${ref}" could be ${shown.join(', ')}${more}`, {
      hint: 'Type more of it.',
      exitCode: 2,
    })
  }
  return match
}
