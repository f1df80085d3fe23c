import type { SandboxAnswer } from '@dormouse/contracts/http'
import type { SandboxRecord } from './record.ts'

/**
 * A sandbox that sleeps because it is idle is `running` for E2B's clients: any request wakes it. It is `paused` when a
 * client paused it, or when its time was over and it was put to standby instead of being killed.
 */
export function stateOf(
  record: SandboxRecord,
  { state }: SandboxAnswer,
  nowMs: number,
): 'running' | 'paused' {
  const isAsleep = state === 'standby' || state === 'suspending'
  const isOver = record.onTimeout === 'pause' && record.endAtMs <= nowMs
  return isAsleep && (record.isPaused || isOver) ? 'paused' : 'running'
}

/** The policy that ends a sandbox when E2B's `timeout` is over. */
export function expiryOf({
  endAtMs,
  onTimeout,
}: Pick<SandboxRecord, 'endAtMs' | 'onTimeout'>): NonNullable<SandboxAnswer['expires']> {
  return { at: new Date(endAtMs).toISOString(), action: onTimeout === 'pause' ? 'standby' : 'delete' }
}
