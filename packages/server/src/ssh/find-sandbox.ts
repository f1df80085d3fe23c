import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { Caller } from '../access/caller.ts'
import type { Sandbox, Sandboxes } from '../sandbox/service.ts'

const PAGE = 1000
const SHOWN_MAX = 8

export interface FoundSandbox<Of extends Caller> {
  readonly sandbox: Sandbox
  /** Who reaches it. */
  readonly caller: Of
}

interface Candidate<Of extends Caller> {
  readonly id: string
  readonly name: string | undefined
  readonly caller: Of
}

/**
 * As the command line finds one: by its id or name, or by the beginning of either if only one has it, among all that these callers reach.
 * Throws `not_found`, and `conflict` when several are meant: which one is never guessed.
 */
export function findSandbox<Of extends Caller>(
  sandboxes: Sandboxes,
  ref: string,
  callers: readonly Of[],
): FoundSandbox<Of> {
  const named = distinct(callers.flatMap((caller) => exactly(sandboxes, ref, caller)))
  const begins =
    named.length > 0 ? [] : distinct(callers.flatMap((caller) => beginningWith(sandboxes, ref, caller)))
  const exact = begins.filter(({ name }) => name === ref)
  const [only, ...others] = named.length > 0 ? named : exact.length > 0 ? exact : begins
  if (only === undefined)
    throw new DormouseError('not_found', `There is no sandbox "${ref}".`, {
      hint: '`dormouse ls` lists them.',
    })
  if (others.length > 0) {
    const shown = [only, ...others]
      .slice(0, SHOWN_MAX)
      .map(({ id, name }) => (name === undefined ? id : `${name} (${id})`))
    throw new DormouseError('conflict', `"${ref}" could be ${shown.join(', ')}.`, {
      hint: 'Type more of it, or its id.',
    })
  }
  return { sandbox: sandboxes.get(only.id, only.caller), caller: only.caller }
}

function exactly<Of extends Caller>(sandboxes: Sandboxes, ref: string, caller: Of): Candidate<Of>[] {
  try {
    const { id, name } = sandboxes.get(ref, caller).view()
    return [{ id, name, caller }]
  } catch (error) {
    if (!hasErrorCode(error, 'not_found')) throw error
    return []
  }
}

function beginningWith<Of extends Caller>(sandboxes: Sandboxes, ref: string, caller: Of): Candidate<Of>[] {
  const found: Candidate<Of>[] = []
  if (ref === '') return found
  let cursor: string | undefined
  do {
    const page = sandboxes.list({ limit: PAGE, ...(cursor !== undefined && { cursor }) }, caller)
    for (const { id, name } of page.items)
      if (id.startsWith(ref) || id.startsWith(`sb-${ref}`) || name?.startsWith(ref) === true)
        found.push({ id, name, caller })
    cursor = page.nextCursor
  } while (cursor !== undefined)
  return found
}

/** An admin and another may reach the same one: the first caller counts. */
function distinct<Of extends Caller>(found: readonly Candidate<Of>[]): Candidate<Of>[] {
  return [...new Map(found.toReversed().map((one) => [one.id, one])).values()].toReversed()
}
