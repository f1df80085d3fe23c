import type { SandboxAnswer, SandboxMetricsAnswer, SnapshotAnswer } from '@dormouse/contracts/http'
import type { BurrowMemory } from '@dormouse/engine'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { SnapshotRow } from '../store/snapshot-rows.ts'
import type { Sandbox } from './sandbox.ts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'

/** A sandbox as the API shows it. */
export function sandboxView({ row, work, deps }: Sandbox): SandboxAnswer {
  return {
    ...rowView(row),
    network: { ...row.network, unavailable: deps.network.problemOf(row.id) },
    lastActiveAt: new Date(work.lastActiveAt).toISOString(),
    damage: deps.quarantine.damageOf(row),
    replicated: deps.ownership?.isReplicated(row.id),
  }
}

/** What the row alone says of a sandbox. */
export function rowView(row: SandboxRow): SandboxAnswer {
  const time = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString())
  return {
    id: row.id,
    name: row.name,
    state: row.state,
    tier: row.tier,
    template: row.template,
    isolation: row.isolation,
    metadata: row.metadata,
    limits: row.limits,
    volumes: row.volumes.map(({ volume, path, readOnly }) => ({ volume, path, readOnly })),
    idleTimeoutMs: row.idleTimeoutMs,
    storeAfterMs: row.storeAfterMs,
    maxBackgroundMs: row.maxBackgroundMs,
    wakeOnTimer: row.wakeOnTimer,
    wakesAt: time(row.wakesAt),
    atMemoryLimit: row.atMemoryLimit,
    checkpointEveryMs: row.checkpointEveryMs,
    connections: row.connections,
    expires: row.expires,
    ephemeral: row.ephemeral,
    secrets: row.secrets,
    network: row.network,
    createdAt: new Date(row.createdAt).toISOString(),
    lastActiveAt: new Date(row.lastActiveAt).toISOString(),
    stateSince: new Date(row.stateSince).toISOString(),
    headSnapshotId: row.head,
    forkedFrom: row.forkedFrom,
    lostSince: time(row.lostSince),
  }
}

/** A snapshot as the API shows it. */
export function snapshotView(
  { snapshots, quarantine }: Pick<SandboxDependencies, 'snapshots' | 'quarantine'>,
  row: SnapshotRow,
): SnapshotAnswer {
  const damage = quarantine.find(row.id)
  return {
    id: row.id,
    sandboxId: row.sandboxId,
    name: row.name,
    kind: row.kind,
    parentId: row.parent,
    template: row.template,
    createdAt: new Date(row.createdAt).toISOString(),
    isHead: snapshots.isHead(row.id),
    damage: damage && { reason: damage.reason, foundAt: new Date(damage.foundAt).toISOString() },
    bytes: { images: row.imageBytes, memory: row.memoryBytes },
  }
}

/** What a sandbox uses now. `withMemory`: also how much of its memory is its own, as last measured. */
export async function sandboxMetrics(
  sandbox: Sandbox,
  { withMemory }: { withMemory: boolean },
): Promise<SandboxMetricsAnswer> {
  const { burrow, deps } = sandbox
  const [usage, memory] = await Promise.all([
    burrow?.usage(),
    withMemory && burrow ? deps.memory.measure(burrow) : undefined,
  ])
  const { id, state, tier } = sandbox.view()
  return {
    sandboxId: id,
    state,
    tier,
    usage,
    memory: memory && withoutCopied(memory),
    network: deps.network.counters(sandbox.id),
  }
}

/** `why` has the programs. */
function withoutCopied<Memory extends BurrowMemory>({
  copied: _copied,
  ...memory
}: Memory): Omit<Memory, 'copied'> {
  return memory
}
