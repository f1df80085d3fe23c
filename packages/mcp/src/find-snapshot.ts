import { DormouseError, type Sandbox } from 'dormouse'

const SNAPSHOT_ID = /^sn-[2-9a-km-np-z]{16}$/

/** Returns the id of a snapshot, given its id or name; of several with the same name, the newest. */
export async function findSnapshot(sandbox: Sandbox, idOrName: string, signal: AbortSignal): Promise<string> {
  if (SNAPSHOT_ID.test(idOrName)) return idOrName
  let newest: { id: string; createdAt: string } | undefined
  for await (const snapshot of sandbox.client.snapshots.list({ sandboxId: sandbox.id, signal })) {
    if (snapshot.name !== idOrName) continue
    if (newest === undefined || snapshot.createdAt > newest.createdAt) newest = snapshot
  }
  if (newest !== undefined) return newest.id
  throw new DormouseError('not_found', `This sandbox has no snapshot "${idOrName}"`, {
    hint: 'Call list_snapshots to see its snapshots.',
  })
}
