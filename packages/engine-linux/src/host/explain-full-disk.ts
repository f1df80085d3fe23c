import { DormouseError } from '@dormouse/contracts'

/** Codes of errors that a full disk may have caused. */
const PASSED_ON = new Set(['internal', 'burrow_start_failed', 'restore_failed'])

/** Returns `no_space` for an error that a full disk caused, however deep in its causes; any other error as it is. */
export function explainFullDisk(error: unknown): unknown {
  // An error with a snapshot id says where the sandbox was saved, and must keep doing so.
  const isOurs = error instanceof DormouseError
  if (isOurs && (!PASSED_ON.has(error.code) || 'snapshotId' in error.details)) return error
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    const { code, message } = at as NodeJS.ErrnoException
    if (code === 'ENOSPC' || code === 'EDQUOT' || code === 'no_space' || message.includes('No space left'))
      return new DormouseError('no_space', 'The disk that holds the sandboxes is full.', { cause: error })
  }
  return error
}

/** For `catch`: throws what `explainFullDisk` returns. */
export function throwExplained(error: unknown): never {
  throw explainFullDisk(error)
}
