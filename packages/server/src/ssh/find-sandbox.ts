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

/** What a sandbox may be called by. */
interface Called {
  readonly id: string
  readonly name?: string | undefined
}

interface Candidate<Of extends Caller> extends Called {
  readonly caller: Of
}

/** Sandboxes of other hosts that begin like this. The connection was not passed on, so several sandboxes do. */
export type BeginningElsewhere<Of extends Caller> = (ref: string, caller: Of) => readonly Called[]

export function beginsWith({ id, name }: Called, ref: string): boolean {
  return id.startsWith(ref) || id.startsWith(`sb-${ref}`) || name?.startsWith(ref) === true
}

/**
 * Finds a sandbox as the command line does: by id or name, or by a unique beginning of either, among the sandboxes of
 * these callers. Throws `not_found`, and `conflict` when several match.
 */
export function findSandbox<Of extends Caller>(
  sandboxes: SandboxCalls,
  ref: string,
  callers: readonly Of[],
  elsewhere: BeginningElsewhere<Of> = () => [],
): FoundSandbox<Of> {
  const named = distinct(callers.flatMap((caller) => exactly(sandboxes, ref, caller)))
  const beginning = (caller: Of): Candidate<Of>[] => [
    ...beginningWith(sandboxes, ref, caller),
    ...elsewhere(ref, caller).map(({ id, name }) => ({ id, name, caller })),
  ]
  const begins = named.length > 0 ? [] : distinct(callers.flatMap(beginning))
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
    for (const one of page.items) if (beginsWith(one, ref)) found.push({ id: one.id, name: one.name, caller })
    cursor = page.nextCursor
  } while (cursor !== undefined)
  return found
}

/** Several callers may have access to the same sandbox: the first one counts. */
function distinct<Of extends Caller>(found: readonly Candidate<Of>[]): Candidate<Of>[] {
  return [...new Map(found.toReversed().map((one) => [one.id, one])).values()].toReversed()
}
