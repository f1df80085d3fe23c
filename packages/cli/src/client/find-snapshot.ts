import type { Sandbox, Snapshot } from 'dormouse'
import type { Call } from './call.ts'
import { findByReference } from './find-sandbox.ts'

const SNAPSHOT_ID = /^sn-[2-9a-km-np-z]{16}$/

/**
 * Finds a snapshot by its id, or as SANDBOX/NAME. A name alone, or a prefix that is unique, means one of `sandbox` if
 * given, otherwise one of any sandbox.
 */
export async function findSnapshot(call: Call, ref: string, sandbox?: Sandbox): Promise<Snapshot> {
  const { client, signal } = call
  if (SNAPSHOT_ID.test(ref)) return client.snapshots.get(ref, { signal })
  const [first = '', name] = ref.split('/')
  const of = name === undefined ? sandbox : await call.sandbox(first)
  const found = await client.snapshots.list({ ...(of && { sandboxId: of.id }), signal }).all()
  return pickSnapshot(name ?? first, found, of)
}

export function pickSnapshot(ref: string, snapshots: readonly Snapshot[], of?: Sandbox): Snapshot {
  const owner = of?.name ?? of?.id
  return findByReference(ref, snapshots, {
    what: owner === undefined ? 'snapshot' : `snapshot of ${owner}`,
    idPrefix: 'sn-',
    list: owner === undefined ? 'dormouse snapshot ls' : `dormouse snapshot ls ${owner}`,
  })
}
