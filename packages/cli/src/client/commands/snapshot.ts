import type { Snapshot } from 'dormouse'
import { formatBytes, formatDistance, formatMs } from '../../format/amounts.ts'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { pick } from '../find-sandbox.ts'
import { shortName } from './ls.ts'

interface SnapshotFlags {
  readonly name?: string
  readonly files?: boolean
}

export async function createSnapshot(call: Call, ref: string, { name, files }: SnapshotFlags): Promise<void> {
  const sandbox = await call.sandbox(ref)
  const began = performance.now()
  const snapshot = await call.during(
    `Saving ${shortName(sandbox)}`,
    sandbox.snapshot({
      ...(name === undefined ? {} : { name }),
      ...(files === true ? { kind: 'files' as const } : {}),
      signal: call.signal,
    }),
  )
  call.answer(snapshot, `${snapshot.id}\n`)
  const took = formatMs(performance.now() - began)
  call.note(
    `Saved (${took}). \`dormouse rollback ${shortName(sandbox)} ${shortName(snapshot)}\` comes back to it.`,
  )
}

export async function listSnapshots(call: Call, ref: string | undefined): Promise<void> {
  const { client, signal } = call
  const of = ref === undefined ? {} : { sandboxId: (await call.sandbox(ref)).id }
  const snapshots = await client.snapshots.list({ ...of, signal }).all()
  call.answer({ snapshots }, formatSnapshots(snapshots))
  if (snapshots.length === 0) call.note('There are no snapshots. `dormouse snapshot SANDBOX` takes one.')
}

export async function removeSnapshots(call: Call, refs: readonly string[]): Promise<void> {
  const { client, signal } = call
  const all = await client.snapshots.list({ signal }).all()
  const found = refs.map((ref) =>
    pick(ref, all, { what: 'snapshot', idPrefix: 'sn-', list: 'dormouse snapshot ls' }),
  )
  for (const { id } of found) await client.snapshots.delete(id, { signal })
  call.answer({ deleted: found.map(({ id }) => id) }, found.map(({ id }) => `${id}\n`).join(''))
}

function formatSnapshots(snapshots: readonly Snapshot[], now = Date.now()): string {
  if (snapshots.length === 0) return ''
  return formatTable([
    ['ID', 'NAME', 'SANDBOX', 'KIND', 'SIZE', 'CREATED', ''],
    ...snapshots.map((snapshot) => [
      snapshot.id,
      snapshot.name ?? '-',
      snapshot.sandboxId,
      snapshot.kind,
      formatBytes(snapshot.bytes.images + snapshot.bytes.memory),
      `${formatDistance(Date.parse(snapshot.createdAt), now)} ago`,
      snapshot.isHead ? 'head' : '',
    ]),
  ])
}
