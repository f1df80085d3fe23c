import { hasErrorCode, type SandboxId, type SnapshotId } from '@dormouse/contracts'
import type { AdoptedBurrows, Burrow, Snapshot } from '@dormouse/engine'
import type { IntentKind } from '../store/intent-rows.ts'
import type { LifecycleParts } from './parts.ts'
import { SandboxBody } from './sandbox-body.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { loss } from './transitions/lose.ts'
import { remove } from './transitions/remove.ts'
import { limitsOfProcesses } from './transitions/wake.ts'

type Lost = AdoptedBurrows['lost'][number]

interface Found {
  readonly burrows: Map<SandboxId, Burrow[]>
  readonly lost: Map<SandboxId, Lost>
  readonly snapshots: Map<SnapshotId, Snapshot>
}

export interface Recovery {
  readonly running: number
  readonly standby: number
  readonly lost: number
  readonly removed: number
}

/**
 * Brings the rows, the burrows that live and the snapshots on disk into agreement, whatever the last server was doing when it ended.
 * What was acknowledged stays; what was under way is finished or undone; what belongs to nobody goes.
 */
export async function recover(registry: SandboxRegistry): Promise<Recovery> {
  const { parts } = registry
  const found = await lookAround(parts)
  const intents = new Map(parts.intents.all().map(({ sandboxId, kind }) => [sandboxId, kind]))
  const count = { running: 0, standby: 0, lost: 0, removed: 0 }
  for (const row of parts.rows.all()) {
    const burrows = found.burrows.get(row.id) ?? []
    found.burrows.delete(row.id)
    const body = new SandboxBody(parts, row)
    const outcome = await settle(body, burrows, found, intents.get(row.id))
    count[outcome] += 1
    if (outcome !== 'removed') registry.add(body)
  }
  for (const burrow of [...found.burrows.values()].flat()) await burrow.destroy()
  await collectSnapshots(parts, found)
  return count
}

async function lookAround({ engine }: LifecycleParts): Promise<Found> {
  const adopted = await engine.adoptBurrows()
  const burrows = new Map<SandboxId, Burrow[]>()
  for (const burrow of adopted.burrows) {
    burrows.set(burrow.sandboxId, [...(burrows.get(burrow.sandboxId) ?? []), burrow])
  }
  return {
    burrows,
    lost: new Map(adopted.lost.map((lost) => [lost.sandboxId, lost])),
    snapshots: new Map((await engine.listSnapshots()).map((snapshot) => [snapshot.id, snapshot])),
  }
}

async function settle(
  body: SandboxBody,
  burrows: readonly Burrow[],
  found: Found,
  intent: IntentKind | undefined,
): Promise<keyof Recovery> {
  const { row } = body
  const [burrow, ...others] = chooseBurrow(burrows)
  for (const other of others) await other.destroy()
  // A creation that nobody was told of, or a deletion that was: neither is to be.
  if (intent === 'create' || row.state === 'creating' || row.state === 'deleting') {
    if (burrow !== undefined) await burrow.destroy()
    await remove(body)
    return 'removed'
  }
  takeUnrecorded(body, found, burrow, intent)
  if (burrow !== undefined) return adopt(body, burrow, intent)
  const lost = found.lost.get(row.id)
  const wasSaved = lost?.end.reason === 'stored' || row.state !== 'running'
  if (wasSaved || isSavedSince(body, intent)) return rest(body)
  if (row.ephemeral) {
    await remove(body)
    return 'removed'
  }
  return comeBackFromHead(body, found)
}

/** Two at once: it was in the middle of a rollback, and what was before counts until the new one is acknowledged. */
function chooseBurrow(burrows: readonly Burrow[]): Burrow[] {
  return [...burrows].sort((a, b) => a.createdAt.getTime() - b.createdAt.getTime())
}

const TAKES_NO_SNAPSHOT: ReadonlySet<IntentKind> = new Set(['wake', 'rollback', 'change'])

/** A snapshot that was finished but not written down yet is its newest state. */
function takeUnrecorded(
  body: SandboxBody,
  { snapshots }: Found,
  burrow: Burrow | undefined,
  intent: IntentKind | undefined,
): void {
  if (intent === undefined || TAKES_NO_SNAPSHOT.has(intent)) return
  const { row, parts } = body
  const known = parts.snapshots.ids()
  const newest = [...snapshots.values()]
    .filter(({ id, sandboxId, kind }) => sandboxId === row.id && kind === 'full' && !known.has(id))
    .sort((a, b) => b.createdAt.getTime() - a.createdAt.getTime())[0]
  if (newest === undefined) return
  const state = burrow === undefined ? ('standby' as const) : row.state
  body.write({
    change: { head: newest.id, ...(state === 'standby' && { state, tier: 'stored', lostSince: undefined }) },
    alongside: () => parts.snapshots.put(newest, { owner: row.owner, isKept: false }),
  })
}

function isSavedSince({ row }: SandboxBody, intent: IntentKind | undefined): boolean {
  return intent === 'standby' && row.state === 'standby'
}

async function adopt(
  body: SandboxBody,
  burrow: Burrow,
  intent: IntentKind | undefined,
): Promise<keyof Recovery> {
  const { row } = body
  if (intent === 'change') await restoreLimits(body, burrow)
  if (row.state === 'standby' && row.tier === 'frozen' && (intent === undefined || intent === 'change')) {
    // Rows say `running` before anything is thawed, so nothing has happened in it since.
    await burrow.freeze()
    body.enter(burrow, { isContinued: true, isAdopted: true })
    if (intent !== undefined) body.write({ intent: null })
    return 'standby'
  }
  await burrow.thaw()
  body.enter(burrow, { isContinued: true, isAdopted: true })
  body.write({
    change: { state: 'running', tier: undefined, stateSince: body.parts.now() },
    intent: null,
    entry: { event: 'adopted', cause: 'server start', detail: `was ${row.state}` },
  })
  body.work.touch()
  return 'running'
}

/** A change that was under way is not in the row, but may have come as far as its processes. */
async function restoreLimits({ id, row, parts }: SandboxBody, burrow: Burrow): Promise<void> {
  await burrow.setLimits(limitsOfProcesses(row.limits)).catch((error: unknown) => {
    parts.log.warn(
      { sandboxId: id, err: error },
      'a sandbox has other limits than its row until it next wakes',
    )
  })
}

function rest(body: SandboxBody): keyof Recovery {
  const { row, parts } = body
  const isNews = row.state !== 'standby' || row.tier !== 'stored'
  body.write({
    change: { state: 'standby', tier: 'stored', ...(isNews && { stateSince: parts.now() }) },
    intent: null,
    ...(isNews && {
      entry: { event: 'stored', cause: 'server start', tier: 'stored', detail: `was ${row.state}` },
    }),
  })
  return 'standby'
}

/** The host died under it. It comes back as it was last saved, and says since when things are lost. */
function comeBackFromHead(body: SandboxBody, { lost, snapshots }: Found): keyof Recovery {
  const filesId = lost.get(body.id)?.filesSnapshotId
  const files = filesId === undefined ? undefined : snapshots.get(filesId)
  const move = loss(body, files, { cause: 'host ended', detail: 'The host went down, or its processes did.' })
  body.write({
    ...move,
    change: { ...move.change, state: 'standby', stateSince: body.parts.now() },
  })
  return 'lost'
}

async function collectSnapshots({ engine, snapshots, log }: LifecycleParts, found: Found): Promise<void> {
  const known = snapshots.ids()
  const strays = [...found.snapshots.keys()].filter((id) => !known.has(id))
  for (const id of [...snapshots.unused(), ...strays]) {
    try {
      await engine.deleteSnapshot(id)
    } catch (error) {
      if (!hasErrorCode(error, 'not_found')) {
        log.warn({ snapshotId: id, err: error }, 'a snapshot that nobody needs could not be removed')
        continue
      }
    }
    snapshots.delete(id)
  }
}

export function describeRecovery({ running, standby, lost, removed }: Recovery): string {
  const parts = [`${running} running`, `${standby} asleep`]
  if (lost > 0) parts.push(`${lost} back from their last snapshot`)
  if (removed > 0) parts.push(`${removed} unfinished removed`)
  return parts.join(', ')
}
