import type { Sandbox } from './sandbox.ts'

/** Gives children of forks to other hosts of the cluster. Absent outside a cluster. */
export interface ForkSpread {
  /** This host has no room for more sandboxes, and another one has. */
  isWanted(parent: Sandbox): boolean
  /** Children that cannot be given away stay here, asleep. */
  place(children: readonly Sandbox[]): Promise<void>
}
