import type { SandboxId } from '@dormouse/contracts'
import { FAMILY_MAX_NODES, type FamilyAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { MemorySampler } from '../sandbox/memory-sampler.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { Sandboxes } from '../sandbox/sandboxes.ts'
import type { LineageRows } from '../store/lineage-rows.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'

type Node = FamilyAnswer['nodes'][number]

export interface FamilyDependencies {
  readonly sandboxes: Pick<Sandboxes, 'all' | 'find'>
  readonly lineage: Pick<LineageRows, 'parentOf'>
  readonly snapshots: Pick<SnapshotRows, 'list'>
  readonly memory: Pick<MemorySampler, 'measure'>
}

/**
 * All sandboxes that share an ancestor with this one, and their snapshots; parents come before their children. Shows
 * only what the caller may see: the way to an ancestor that was deleted has its id only. Wakes nothing.
 */
export async function familyOf(
  deps: FamilyDependencies,
  sandbox: Pick<Sandbox, 'id'>,
  caller: Caller,
): Promise<FamilyAnswer> {
  const children = childrenOf(deps, caller)
  const order: { id: SandboxId; parentId: SandboxId | undefined }[] = []
  const seen = new Set<string>()
  const waiting = [{ id: rootOf(deps, sandbox.id), parentId: undefined as SandboxId | undefined }]
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    if (seen.has(next.id)) continue
    seen.add(next.id)
    order.push(next)
    const parentId = next.id
    for (const id of children.get(next.id) ?? []) waiting.push({ id, parentId })
  }
  const shown = order.slice(0, FAMILY_MAX_NODES)
  const sandboxNodes = await Promise.all(shown.map((one) => sandboxNode(deps, one, caller)))
  const owner = caller.isAdmin ? undefined : caller.keyId
  const snapshots = shown.flatMap(({ id }) => snapshotNodes(deps, id, owner))
  const nodes = [...sandboxNodes, ...snapshots]
  return {
    nodes: nodes.slice(0, FAMILY_MAX_NODES),
    more: order.length > shown.length || nodes.length > FAMILY_MAX_NODES,
  }
}

function rootOf({ lineage }: FamilyDependencies, from: SandboxId): SandboxId {
  const seen = new Set<SandboxId>()
  let at = from
  for (;;) {
    seen.add(at)
    const parent = lineage.parentOf(at)
    if (parent === undefined || seen.has(parent)) return at
    at = parent
  }
}

/** Of each sandbox the forks that the caller may see, and deleted ones on the way to them. */
function childrenOf(deps: FamilyDependencies, caller: Caller): Map<string, SandboxId[]> {
  const children = new Map<string, SandboxId[]>()
  const added = new Set<SandboxId>()
  const add = (id: SandboxId): void => {
    if (added.has(id)) return
    added.add(id)
    const parent = deps.lineage.parentOf(id)
    if (parent === undefined) return
    children.set(parent, [...(children.get(parent) ?? []), id])
    add(parent)
  }
  for (const { id, row, isDeleted } of deps.sandboxes.all())
    if (!isDeleted && (caller.isAdmin || row.owner === caller.keyId) && row.forkedFrom !== undefined) add(id)
  return children
}

async function sandboxNode(
  { sandboxes, memory }: FamilyDependencies,
  { id, parentId }: { id: SandboxId; parentId: SandboxId | undefined },
  caller: Caller,
): Promise<Node> {
  const found = sandboxes.find(id)
  if (found === undefined || found.isDeleted || !(caller.isAdmin || found.row.owner === caller.keyId))
    return { kind: 'sandbox', id, parentId, state: 'deleted' }
  const { name, state, tier, createdAt } = found.row
  const measured = found.burrow === undefined ? undefined : await memory.measure(found.burrow)
  return {
    ...{ kind: 'sandbox', id, name, parentId, state, tier },
    createdAt: new Date(createdAt).toISOString(),
    memory: measured && { privateBytes: measured.privateBytes, sharedBytes: measured.sharedBytes },
  }
}

function snapshotNodes({ snapshots }: FamilyDependencies, id: SandboxId, owner: string | undefined): Node[] {
  const { items } = snapshots.list({ sandboxId: id, limit: FAMILY_MAX_NODES }, owner)
  return items.map((row) => ({
    kind: 'snapshot',
    id: row.id,
    name: row.name,
    parentId: row.sandboxId,
    createdAt: new Date(row.createdAt).toISOString(),
    memoryBytes: row.memoryBytes,
  }))
}
