import type { SandboxRow } from '../../store/sandbox-rows.ts'

/** The part of a row that is the same for every sandbox that is being created: none of it comes from a parent. */
export function beginRow(now: number) {
  return {
    state: 'creating',
    tier: undefined,
    burrow: undefined,
    createdAt: now,
    lastActiveAt: now,
    stateSince: now,
    lostSince: undefined,
    wakesAt: undefined,
    diskBytes: undefined,
    diskFiles: undefined,
    pausedAtBytes: undefined,
  } satisfies Partial<SandboxRow>
}
