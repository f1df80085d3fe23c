import type { ErrorCode } from '@dormouse/contracts'

/** What every route that reaches into a sandbox can answer with: it may have to wake it, and it may end meanwhile. */
export const GUEST_ERRORS = [
  'not_found',
  'limit_reached',
  'cancelled',
  'snapshot_unusable',
  'restore_failed',
  'agent_unreachable',
  'burrow_ended',
  'overloaded',
] as const satisfies readonly ErrorCode[]
