import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { Caller } from '../access/caller.ts'
import type { SandboxHandle } from '../sandbox/sandbox-handle.ts'
import type { SandboxCalls } from '../sandbox/sandbox-service.ts'

const PAGE = 1000
const SHOWN_MAX = 8

export interface FoundSandbox<Of extends Caller> {
  readonly sandbox: SandboxHandle
  /** The caller that has access to it. */
  readonly caller: Of
}

interface Candidate<Of extends Caller> {
  readonly id: string
  readonly name: string | undefined
  readonly caller: Of
}

/**
 * Finds a sandbox as the command line does: by id or name, or by a unique beginning of either, among the sandboxes of
 * these callers. Throws `not_found`, and `conflict` when several match.
 */
export function findSandbox<Of extends Caller>(
  sandboxes: SandboxCalls,
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
      hint: 'List sandboxes with `dormouse ls`.',
    })
  if (others.length > 0) {
    const shown = [only, ...others]
      .slice(0, SHOWN_MAX)
      .map(({ id, name }) => (name === undefined ? id : `${name} (${id})`))
    throw new DormouseError('conflict', `"${ref}" could be ${shown.join(', ')}.`, {
      hint: 'Type more characters, or the id.',
    })
  }
  return { sandbox: sandboxes.get(only.id, only.caller), caller: only.caller }
}

function exactly<Of extends Caller>(sandboxes: SandboxCalls, ref: string, caller: Of): Candidate<Of>[] {
  try {
    const { id, name } = sandboxes.get(ref, caller).view()
    return [{ id, name, caller }]
  } catch (error) {
    if (!hasErrorCode(error, 'not_found')) throw error
    return []
  }
}

function beginningWith<Of extends Caller>(sandboxes: SandboxCalls, ref: string, caller: Of): Candidate<Of>[] {
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

/** Several callers may have access to the same sandbox: the first one counts. */
function distinct<Of extends Caller>(found: readonly Candidate<Of>[]): Candidate<Of>[] {
  return [...new Map(found.toReversed().map((one) => [one.id, one])).values()].toReversed()
}
