import { DormouseError } from '@dormouse/contracts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { capitalised, howToRaise, inBinaryUnits } from './memory-words.ts'

/** Asleep at its memory limit, which has not been raised since. */
export function isPaused({ state, pausedAtBytes, limits }: SandboxRow): boolean {
  return state === 'standby' && pausedAtBytes !== undefined && limits.memoryBytes <= pausedAtBytes
}

/** A sandbox that was paused at its memory limit wakes when the limit is raised. */
export function requireMemoryLimit(row: SandboxRow): void {
  if (isPaused(row)) throw pausedError(row)
}

export function pausedError(row: SandboxRow): DormouseError {
  const { pausedAtBytes, limits } = row
  return new DormouseError('memory_limit', `${capitalised(pausedText(row))}.`, {
    hint: `${howToRaise(row)} Then it wakes, and what ran in it continues.`,
    details: { pausedAtBytes, limitBytes: limits.memoryBytes },
  })
}

export function pausedText({ pausedAtBytes = 0 }: SandboxRow): string {
  return `the sandbox reached its memory limit of ${inBinaryUnits(pausedAtBytes)} and was paused`
}
