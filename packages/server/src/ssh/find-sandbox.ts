import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { Caller, Sandbox, Sandboxes } from '../lifecycle/service.ts'

const PAGE = 1000
const SHOWN_MAX = 8

/** As the command line finds one: by its id or name, or by the beginning of either if only one has it. Throws `not_found`. */
export function findSandbox(sandboxes: Sandboxes, ref: string, caller: Caller): Sandbox {
  try {
    return sandboxes.get(ref, caller)
  } catch (error) {
    if (!hasErrorCode(error, 'not_found')) throw error
  }
  const begins = beginningWith(sandboxes, ref, caller)
  const exact = begins.filter(({ name }) => name === ref)
  const [only, ...others] = exact.length > 0 ? exact : begins
  if (only === undefined)
    throw new DormouseError('not_found', `There is no sandbox "${ref}".`, {
      hint: '`dormouse ls` lists them.',
    })
  if (others.length > 0) {
    const shown = [only, ...others]
      .slice(0, SHOWN_MAX)
      .map(({ id, name }) => (name === undefined ? id : `${name} (${id})`))
    throw new DormouseError('conflict', `"${ref}" could be ${shown.join(', ')}.`, {
      hint: 'Type more of it.',
    })
  }
  return sandboxes.get(only.id, caller)
}

function beginningWith(sandboxes: Sandboxes, ref: string, caller: Caller) {
  const found: { id: string; name: string | undefined }[] = []
  if (ref === '') return found
  let cursor: string | undefined
  do {
    const page = sandboxes.list({ limit: PAGE, ...(cursor !== undefined && { cursor }) }, caller)
    for (const { id, name } of page.items)
      if (id.startsWith(ref) || id.startsWith(`sb-${ref}`) || name?.startsWith(ref) === true)
        found.push({ id, name })
    cursor = page.nextCursor
  } while (cursor !== undefined)
  return found
}
