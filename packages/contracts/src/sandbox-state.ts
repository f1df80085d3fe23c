/** The life of a sandbox. Everything that changes a state asks this table first. */
export const NEXT_STATES = {
  creating: ['running', 'deleting'],
  // Straight to standby: its processes died, and it comes back from its last snapshot.
  running: ['suspending', 'standby', 'deleting'],
  // Back to running: the engine refused and the tree is untouched.
  suspending: ['standby', 'running', 'deleting'],
  standby: ['resuming', 'deleting'],
  // Back to standby: the snapshot stays the source of truth.
  resuming: ['running', 'standby', 'deleting'],
  deleting: [],
} as const satisfies Record<string, readonly string[]>

export type SandboxState = keyof typeof NEXT_STATES

export function canMove({ from, to }: { from: SandboxState; to: SandboxState }): boolean {
  return (NEXT_STATES[from] as readonly SandboxState[]).includes(to)
}
