import { closeSync, openSync } from 'node:fs'
import { DormouseError } from '@dormouse/contracts'
import { type FirstProcess, isAlive } from './first-process.ts'

/** Opens a namespace of a burrow for as long as `work` takes. Throws `burrow_ended` when there is none any more. */
export async function withNamespace<Result>(
  first: FirstProcess,
  kind: 'net' | 'uts',
  work: (fd: number) => Result | Promise<Result>,
): Promise<Result> {
  const fd = open(first, kind)
  try {
    // Only now is it certain that what was opened belongs to the burrow, and not to a later process with its pid.
    if (!(await isAlive(first))) throw gone()
    return await work(fd)
  } finally {
    closeSync(fd)
  }
}

/** Without a way through other threads, which are busy when a sandbox wakes: nothing here waits for a disk. */
function open({ pid }: FirstProcess, kind: string): number {
  try {
    return openSync(`/proc/${pid}/ns/${kind}`, 'r')
  } catch {
    throw gone()
  }
}

function gone(): DormouseError {
  return new DormouseError('burrow_ended', 'The burrow has ended.')
}
