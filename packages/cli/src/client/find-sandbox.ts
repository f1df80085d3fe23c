import { type Dormouse, DormouseError, Sandbox } from 'dormouse'
import { CliError, UsageError } from './cli-error.ts'
import { didYouMean } from './closest-names.ts'

/** Anything else would change the path of the request. */
const REFERENCE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/
const SHOWN_MAX = 8

/** Finds a sandbox by its id or name, or by a prefix of either that is unique. */
export async function findSandbox(client: Dormouse, ref: string, signal: AbortSignal): Promise<Sandbox> {
  if (!REFERENCE.test(ref))
    throw new UsageError(
      `"${ref}" is neither the name nor the id of a sandbox`,
      'Run `dormouse ls` to list sandboxes.',
    )
  try {
    return await Sandbox.connect(ref, { client, signal })
  } catch (error) {
    if (!(error instanceof DormouseError) || error.code !== 'not_found') throw error
  }
  const all = await client.listSandboxes({ signal }).all()
  const info = findByReference(ref, all, { what: 'sandbox', idPrefix: 'sb-', list: 'dormouse ls' })
  return new Sandbox(client, info)
}

interface Named {
  readonly id: string
  readonly name?: string | undefined
}

/** Finds one item by id, name or prefix. Throws when none or several match. */
export function findByReference<Item extends Named>(
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
  if (match === undefined) {
    const names = items.flatMap(({ name }) => name ?? [])
    throw new CliError('not_found', `There is no ${what} "${ref}"`, {
      hint: `${didYouMean(ref, names)}Run \`${list}\` for a list.`,
    })
  }
  if (others.length > 0) {
    const shown = matches
      .slice(0, SHOWN_MAX)
      .map(({ id, name }) => (name === undefined ? id : `${name} (${id})`))
    const more = matches.length > SHOWN_MAX ? ` and ${matches.length - SHOWN_MAX} more` : ''
    throw new CliError('ambiguous', `"${ref}" could be ${shown.join(', ')}${more}`, {
      hint: 'Use a longer prefix.',
      exitCode: 2,
    })
  }
  return match
}
