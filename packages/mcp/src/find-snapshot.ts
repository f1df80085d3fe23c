import { DormouseError, type Sandbox } from 'dormouse'

const SNAPSHOT_ID = /^sn-[2-9a-km-np-z]{16}$/

/** The id of a snapshot that is named by its id or name; the newest of several with one name. */
export async function findSnapshot(sandbox: Sandbox, idOrName: string, signal: AbortSignal): Promise<string> {
  if (SNAPSHOT_ID.test(idOrName)) return idOrName
  let newest: { id: string; createdAt: string } | undefined
  for await (const snapshot of sandbox.client.snapshots.list({ sandboxId: sandbox.id, signal })) {
    if (snapshot.name !== idOrName) continue
    if (newest === undefined || snapshot.createdAt > newest.createdAt) newest = snapshot
  }
  if (newest !== undefined) return newest.id
  throw new DormouseError('not_found', `This sandbox has no snapshot "${idOrName}"`, {
    hint: 'See list_snapshots for those that it has.',
  })
}
