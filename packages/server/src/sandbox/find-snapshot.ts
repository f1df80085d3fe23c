import { DormouseError, isSandboxId, isSnapshotId, type SandboxId } from '@dormouse/contracts'
import type { SnapshotRow } from '../store/snapshot-rows.ts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'

export interface SnapshotScope {
  /** Names of sandboxes are those of this owner. */
  readonly owner: string
  /** The sandbox whose snapshots need no `SANDBOX/` before their name. */
  readonly sandboxId?: SandboxId
}

/**
 * Finds a snapshot by its id, as `SANDBOX/NAME`, or by the name alone where the sandbox is known. The caller checks
 * whose it is. A sandbox that was deleted is still known by its id.
 */
export function findSnapshot(
  { snapshots, sandboxes, elsewhere }: Pick<SandboxDependencies, 'snapshots' | 'sandboxes' | 'elsewhere'>,
  ref: string,
  { owner, sandboxId }: SnapshotScope,
): SnapshotRow | undefined {
  const named = (of: SandboxId, name: string) =>
    snapshots.findNamed(of, name) ?? elsewhere?.findNamed(of, name)
  if (isSnapshotId(ref)) return snapshots.get(ref) ?? elsewhere?.find(ref)
  const [first = '', second] = ref.split('/')
  if (second === undefined) return sandboxId && named(sandboxId, first)
  const of = isSandboxId(first) ? first : sandboxes.findNamed(first, owner)?.id
  return of && named(of, second)
}

export function noSuchSnapshot(ref: string): DormouseError {
  return new DormouseError('not_found', `There is no snapshot ${ref}.`)
}
