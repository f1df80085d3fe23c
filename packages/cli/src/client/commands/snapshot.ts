import { DormouseError, type Snapshot } from 'dormouse'
import { formatBytes, formatDistance, formatMs } from '../../format/amounts.ts'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { CliError } from '../cli-error.ts'
import { findSnapshot, pickSnapshot } from '../find-snapshot.ts'
import { shortName } from './ls.ts'

interface SnapshotFlags {
  readonly name?: string
  readonly files?: boolean
}

export async function createSnapshot(call: Call, ref: string, { name, files }: SnapshotFlags): Promise<void> {
  const sandbox = await call.sandbox(ref)
  const began = performance.now()
  const snapshot = await call.withProgress(
    `Saving ${shortName(sandbox)}`,
    sandbox.snapshot({
      ...(name === undefined ? {} : { name }),
      ...(files === true ? { kind: 'files' as const } : {}),
      signal: call.signal,
    }),
  )
  call.printResult(snapshot, `${snapshot.id}\n`)
  const took = formatMs(performance.now() - began)
  call.note(
    `Saved (${took}). Roll back with \`dormouse rollback ${shortName(sandbox)} ${shortName(snapshot)}\`.`,
  )
}

export async function listSnapshots(
  call: Call,
  ref: string | undefined,
  { quiet }: { quiet?: boolean },
): Promise<void> {
  const { client, signal } = call
  const of = ref === undefined ? {} : { sandboxId: (await call.sandbox(ref)).id }
  const [snapshots, sandboxes] = await Promise.all([
    client.snapshots.list({ ...of, signal }).all(),
    client.listSandboxes({ signal }).all(),
  ])
  if (quiet === true) return call.printNames(snapshots)
  const names = new Map(sandboxes.map((sandbox) => [sandbox.id, shortName(sandbox)]))
  call.printResult({ snapshots }, formatSnapshots(snapshots, names))
  if (snapshots.length === 0) call.note('There are no snapshots. Take one with `dormouse snapshot SANDBOX`.')
}

/** Checks the named snapshots, or all. A damaged snapshot does not stop the check. */
export async function verifySnapshots(call: Call, refs: readonly string[]): Promise<number> {
  const { client, signal } = call
  const all = await client.snapshots.list({ signal }).all()
  const wanted = refs.length === 0 ? all : await findAll(call, refs, all)
  const verified: Verified[] = []
  for (const snapshot of wanted) {
    const one = await call.withProgress(`Verifying ${shortName(snapshot)}`, verify(call, snapshot))
    if (one === undefined && refs.length === 0) continue
    if (one === undefined) throw deletedMeanwhile(shortName(snapshot))
    verified.push(one)
    if (!call.isJson)
      call.io.stdout.write(`${one.id}  ${one.ok ? 'good' : `damaged  ${one.error.message}`}\n`)
  }
  if (call.isJson) call.printResult({ snapshots: verified }, '')
  const damaged = verified.filter(({ ok }) => !ok).length
  if (verified.length === 0) call.note('There are no snapshots to verify.')
  else if (damaged > 0) call.note(`${damaged} of ${verified.length} snapshots cannot be restored.`)
  return damaged === 0 ? 0 : 1
}

type Verified =
  | { readonly id: string; readonly ok: true }
  | {
      readonly id: string
      readonly ok: false
      readonly error: Pick<DormouseError, 'code' | 'message' | 'hint'>
    }

/** Undefined when the snapshot was deleted since it was listed: a sandbox that sleeps again replaces its snapshot. */
async function verify({ client, signal }: Call, { id }: Snapshot): Promise<Verified | undefined> {
  try {
    await client.snapshots.verify(id, { signal })
    return { id, ok: true }
  } catch (error) {
    if (!(error instanceof DormouseError)) throw error
    const { code, message, hint } = error
    if (code === 'not_found') return undefined
    if (code !== 'snapshot_unusable') throw error
    return { id, ok: false, error: { code, message, hint } }
  }
}

export async function removeSnapshots(call: Call, refs: readonly string[]): Promise<void> {
  const { client, signal } = call
  const all = await client.snapshots.list({ signal }).all()
  const found = await findAll(call, refs, all)
  for (const { id } of found) await client.snapshots.delete(id, { signal })
  call.printResult({ deleted: found.map(({ id }) => id) }, found.map(({ id }) => `${id}\n`).join(''))
}

function findAll(call: Call, refs: readonly string[], all: readonly Snapshot[]): Promise<Snapshot[]> {
  return Promise.all(
    refs.map((ref) => (ref.includes('/') ? findSnapshot(call, ref) : pickSnapshot(ref, all))),
  )
}

function deletedMeanwhile(ref: string): CliError {
  return new CliError('not_found', `The snapshot ${ref} was deleted in the meantime`, {
    hint: 'Run `dormouse snapshot ls` for a list.',
  })
}

function formatSnapshots(snapshots: readonly Snapshot[], names: ReadonlyMap<string, string>): string {
  const now = Date.now()
  if (snapshots.length === 0) return ''
  return formatTable([
    ['ID', 'NAME', 'SANDBOX', 'KIND', 'SIZE', 'CREATED', ''],
    ...snapshots.map((snapshot) => [
      snapshot.id,
      snapshot.name ?? '-',
      names.get(snapshot.sandboxId) ?? snapshot.sandboxId,
      snapshot.kind,
      formatBytes(snapshot.bytes.images + snapshot.bytes.memory),
      `${formatDistance(Date.parse(snapshot.createdAt), now)} ago`,
      [snapshot.isHead ? 'head' : '', snapshot.damage === undefined ? '' : 'damaged'].join(' ').trim(),
    ]),
  ])
}
