import { DormouseError } from '@dormouse/contracts'

/** Failures that a full disk can be behind, by what the kernel or a program of ours says. */
const PASSED_ON = new Set(['internal', 'burrow_start_failed', 'restore_failed'])

/** `no_space` for an error that a full disk is behind, also deep in its causes; any other as it is. */
export function explainFullDisk(error: unknown): unknown {
  // One with a snapshot says where everything was saved: that must stay.
  const isOurs = error instanceof DormouseError
  if (isOurs && (!PASSED_ON.has(error.code) || 'snapshotId' in error.details)) return error
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    const { code, message } = at as NodeJS.ErrnoException
    if (code === 'ENOSPC' || code === 'EDQUOT' || code === 'no_space' || message.includes('No space left'))
      return new DormouseError('no_space', 'The disk that holds the sandboxes is full.', { cause: error })
  }
  return error
}
