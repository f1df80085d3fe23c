import type { ErrorCode } from '@dormouse/contracts'

/** Errors of every route that calls the guest: the sandbox may have to wake, and may end in the meantime. */
export const GUEST_ERRORS = [
  'not_found',
  'limit_reached',
  'memory_limit',
  'cancelled',
  'snapshot_unusable',
  'restore_failed',
  'agent_unreachable',
  'burrow_ended',
  'overloaded',
] as const satisfies readonly ErrorCode[]
