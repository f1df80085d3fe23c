/** The states of a sandbox and their successors. Every transition checks this table. */
export const NEXT_STATES = {
  creating: ['running', 'deleting'],
  // Directly to standby: the processes died, and the sandbox wakes from its last snapshot.
  running: ['suspending', 'standby', 'deleting'],
  // Back to running: the engine refused, and the processes are unchanged.
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
