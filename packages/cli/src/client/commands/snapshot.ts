import { DormouseError, type Snapshot } from 'dormouse'
import { formatBytes, formatDistance, formatMs } from '../../format/amounts.ts'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { pick } from '../find-sandbox.ts'
import { Problem } from '../problem.ts'
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

export async function listSnapshots(
  call: Call,
  ref: string | undefined,
  { quiet }: { quiet?: boolean },
): Promise<void> {
  const { client, signal } = call
  const of = ref === undefined ? {} : { sandboxId: (await call.sandbox(ref)).id }
  const snapshots = await client.snapshots.list({ ...of, signal }).all()
  if (quiet === true) return call.answerNames(snapshots)
  call.answer({ snapshots }, formatSnapshots(snapshots))
  if (snapshots.length === 0) call.note('There are no snapshots. `dormouse snapshot SANDBOX` takes one.')
}

/** Reads the named ones, or all; what is damaged is part of the outcome, and the others are read as well. */
export async function verifySnapshots(call: Call, refs: readonly string[]): Promise<number> {
  const { client, signal } = call
  const all = await client.snapshots.list({ signal }).all()
  const wanted = refs.length === 0 ? all : refs.map((ref) => pickSnapshot(ref, all))
  const verified: Verified[] = []
  for (const snapshot of wanted) {
    const one = await call.during(`Reading ${shortName(snapshot)}`, verify(call, snapshot))
    if (one === undefined && refs.length === 0) continue
    if (one === undefined) throw notThere(shortName(snapshot))
    verified.push(one)
    if (!call.isJson)
      call.io.stdout.write(`${one.id}  ${one.ok ? 'good' : `damaged  ${one.error.message}`}\n`)
  }
  if (call.isJson) call.answer({ snapshots: verified }, '')
  const damaged = verified.filter(({ ok }) => !ok).length
  if (verified.length === 0) call.note('There are no snapshots to read.')
  else if (damaged > 0) call.note(`${damaged} of ${verified.length} cannot be restored here.`)
  return damaged === 0 ? 0 : 1
}

type Verified =
  | { readonly id: string; readonly ok: true }
  | {
      readonly id: string
      readonly ok: false
      readonly error: Pick<DormouseError, 'code' | 'message' | 'hint'>
    }

/** undefined when it is gone since it was listed: a sandbox that sleeps again has another one. */
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
  const found = refs.map((ref) => pickSnapshot(ref, all))
  for (const { id } of found) await client.snapshots.delete(id, { signal })
  call.answer({ deleted: found.map(({ id }) => id) }, found.map(({ id }) => `${id}\n`).join(''))
}

function pickSnapshot(ref: string, all: readonly Snapshot[]): Snapshot {
  return pick(ref, all, { what: 'snapshot', idPrefix: 'sn-', list: 'dormouse snapshot ls' })
}

function notThere(ref: string): Problem {
  return new Problem('not_found', `The snapshot ${ref} was deleted meanwhile`, {
    hint: '`dormouse snapshot ls` lists what there is.',
  })
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
      [snapshot.isHead ? 'head' : '', snapshot.damage === undefined ? '' : 'damaged'].join(' ').trim(),
    ]),
  ])
}
