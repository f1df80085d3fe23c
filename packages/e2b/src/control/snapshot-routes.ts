import { hasErrorCode, isSnapshotId } from '@dormouse/contracts'
import type { SnapshotAnswer } from '@dormouse/contracts/http'
import type { Backend, Caller } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'
import { readJson, sendJson } from '../http/respond.ts'
import type { Router } from '../http/router.ts'
import { parseBody, snapshotBody } from './bodies.ts'
import { type Authenticated, BODY_MAX_BYTES, type ControlParts } from './sandbox-routes.ts'

const PAGE_MAX = 100
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/

export function snapshotRoutes(router: Router<Authenticated>, { backend, lifecycle }: ControlParts): void {
  router.on('POST', '/sandboxes/:id/snapshots', async ({ request, response, params, key }) => {
    const { name, mode } = parseBody(snapshotBody, await readJson(request, BODY_MAX_BYTES))
    const { sandbox } = lifecycle.get(params['id'] ?? '', key)
    // A name may end with a tag, which says nothing here.
    const wanted = name?.split(':')[0]
    if (wanted !== undefined && !NAME.test(wanted))
      throw new ApiError(400, 'name: must be letters, digits, ".", "_" and "-"')
    const kind = mode === 'filesystem' ? 'files' : 'full'
    const snapshot = await sandbox.snapshot({ name: wanted, kind }).catch((error: unknown) => {
      if (hasErrorCode(error, 'name_taken')) throw new ApiError(409, error.message)
      throw error
    })
    sendJson(response, 201, viewOf(snapshot))
  })
  router.on('GET', '/snapshots', ({ response, query, key }) => {
    const sandboxId = query.get('sandboxID')
    const cursor = query.get('nextToken')
    const name = query.get('name')
    const limit = Math.min(PAGE_MAX, Math.max(1, Number(query.get('limit') ?? PAGE_MAX) || PAGE_MAX))
    const { items, nextCursor } = backend.sandboxes.listSnapshots(
      { limit, ...(sandboxId && { sandboxId }), ...(cursor && { cursor }) },
      { keyId: key.keyId, isAdmin: false },
    )
    if (nextCursor !== undefined) response.setHeader('x-next-token', nextCursor)
    const wanted = items.filter((snapshot) => name === null || snapshot.name === name || snapshot.id === name)
    sendJson(response, 200, wanted.map(viewOf))
  })
}

function viewOf({ id, name }: SnapshotAnswer): object {
  return { snapshotID: id, names: name === undefined ? [] : [name] }
}

/** The id of a snapshot by its id, or the newest of the caller by its name. */
export function findSnapshot(
  { sandboxes }: Pick<Backend, 'sandboxes'>,
  ref: string,
  { keyId }: Caller,
): string | undefined {
  if (isSnapshotId(ref)) return ref
  const name = ref.split(':')[0]
  let cursor: string | undefined
  do {
    const page = sandboxes.listSnapshots(
      { limit: PAGE_MAX, ...(cursor && { cursor }) },
      { keyId, isAdmin: false },
    )
    const found = page.items.find((snapshot) => snapshot.name === name)
    if (found !== undefined) return found.id
    cursor = page.nextCursor
  } while (cursor !== undefined)
  return undefined
}
