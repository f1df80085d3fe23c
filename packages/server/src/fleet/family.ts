import type { SandboxId } from '@dormouse/contracts'
import { FAMILY_MAX_NODES, type FamilyAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { MemorySampler } from '../sandbox/memory-sampler.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { Sandboxes } from '../sandbox/sandboxes.ts'
import type { LineageRows } from '../store/lineage-rows.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'
import type { FleetElsewhere } from './fleet-elsewhere.ts'

type Node = FamilyAnswer['nodes'][number]
type SandboxNode = Extract<Node, { kind: 'sandbox' }>

export interface FamilyDependencies {
  readonly sandboxes: Pick<Sandboxes, 'all' | 'find'>
  readonly lineage: Pick<LineageRows, 'parentOf'>
  readonly snapshots: Pick<SnapshotRows, 'list'>
  readonly memory: Pick<MemorySampler, 'measure'>
  /** The other hosts of a cluster. */
  readonly elsewhere?: Pick<FleetElsewhere, 'rows' | 'snapshots'> | undefined
}

/** What a tree is made of: the sandboxes of this host, and those of others that the caller may see. */
interface Known extends FamilyDependencies {
  readonly rows: ReadonlyMap<string, SandboxRow>
  readonly parentOf: (id: SandboxId) => SandboxId | undefined
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
  const known = knownTo(deps, caller)
  const children = childrenOf(known, caller)
  const order: { id: SandboxId; parentId: SandboxId | undefined }[] = []
  const seen = new Set<string>()
  const waiting = [{ id: rootOf(known, sandbox.id), parentId: undefined as SandboxId | undefined }]
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    if (seen.has(next.id)) continue
    seen.add(next.id)
    order.push(next)
    const parentId = next.id
    for (const id of children.get(next.id) ?? []) waiting.push({ id, parentId })
  }
  const shown = order.slice(0, FAMILY_MAX_NODES)
  const sandboxNodes = await Promise.all(shown.map((one) => sandboxNode(known, one, caller)))
  const owner = caller.isAdmin ? undefined : caller.keyId
  const snapshots = shown.flatMap(({ id }) => snapshotNodes(deps, id, owner))
  const nodes = [...sandboxNodes, ...snapshots]
  return {
    nodes: nodes.slice(0, FAMILY_MAX_NODES),
    more: order.length > shown.length || nodes.length > FAMILY_MAX_NODES,
  }
}

function knownTo(deps: FamilyDependencies, caller: Caller): Known {
  const rows = new Map<string, SandboxRow>()
  const parents = new Map<string, SandboxId>()
  for (const { row, ancestors } of deps.elsewhere?.rows(caller) ?? []) {
    rows.set(row.id, row)
    let child: string = row.id
    for (const parent of ancestors) {
      parents.set(child, parent as SandboxId)
      child = parent
    }
  }
  return { ...deps, rows, parentOf: (id) => deps.lineage.parentOf(id) ?? parents.get(id) }
}

function rootOf({ parentOf }: Known, from: SandboxId): SandboxId {
  const seen = new Set<SandboxId>()
  let at = from
  for (;;) {
    seen.add(at)
    const parent = parentOf(at)
    if (parent === undefined || seen.has(parent)) return at
    at = parent
  }
}

/** Of each sandbox the forks that the caller may see, and deleted ones on the way to them. */
function childrenOf(known: Known, caller: Caller): Map<string, SandboxId[]> {
  const children = new Map<string, SandboxId[]>()
  const added = new Set<SandboxId>()
  const add = (id: SandboxId): void => {
    if (added.has(id)) return
    added.add(id)
    const parent = known.parentOf(id)
    if (parent === undefined) return
    children.set(parent, [...(children.get(parent) ?? []), id])
    add(parent)
  }
  for (const { id, forkedFrom } of known.rows.values()) if (forkedFrom !== undefined) add(id)
  for (const { id, row, isDeleted } of known.sandboxes.all())
    if (!isDeleted && (caller.isAdmin || row.owner === caller.keyId) && row.forkedFrom !== undefined) add(id)
  return children
}

async function sandboxNode(
  { sandboxes, memory, rows }: Known,
  { id, parentId }: { id: SandboxId; parentId: SandboxId | undefined },
  caller: Caller,
): Promise<Node> {
  const found = sandboxes.find(id)
  const elsewhere = found === undefined ? rows.get(id) : undefined
  if (elsewhere !== undefined) return { ...nodeOf(id, elsewhere), parentId }
  if (found === undefined || found.isDeleted || !(caller.isAdmin || found.row.owner === caller.keyId))
    return { kind: 'sandbox', id, parentId, state: 'deleted' }
  const measured = found.burrow === undefined ? undefined : await memory.measure(found.burrow)
  return {
    ...nodeOf(id, found.row),
    parentId,
    memory: measured && { privateBytes: measured.privateBytes, sharedBytes: measured.sharedBytes },
  }
}

function nodeOf(id: SandboxId, { name, state, tier, createdAt }: SandboxRow): SandboxNode {
  return { kind: 'sandbox', id, name, state, tier, createdAt: new Date(createdAt).toISOString() }
}

function snapshotNodes(
  { snapshots, elsewhere }: FamilyDependencies,
  id: SandboxId,
  owner: string | undefined,
): Node[] {
  const { items } = snapshots.list({ sandboxId: id, limit: FAMILY_MAX_NODES }, owner)
  return [...items, ...(elsewhere?.snapshots(id, owner) ?? [])].map((row) => ({
    kind: 'snapshot',
    id: row.id,
    name: row.name,
    parentId: row.sandboxId,
    createdAt: new Date(row.createdAt).toISOString(),
    memoryBytes: row.memoryBytes,
  }))
}
