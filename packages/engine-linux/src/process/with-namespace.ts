import { closeSync, openSync } from 'node:fs'
import { DormouseError } from '@dormouse/contracts'
import { type FirstProcess, isAlive } from './first-process.ts'

/** Opens a namespace of a burrow while `work` runs. Throws `burrow_ended` when the burrow has ended. */
export async function withNamespace<Result>(
  first: FirstProcess,
  kind: 'net' | 'uts',
  work: (fd: number) => Result | Promise<Result>,
): Promise<Result> {
  const fd = open(first, kind)
  try {
    // PID 1 is alive after the open, so the namespace belongs to the burrow and not to a later process with its pid.
    if (!(await isAlive(first))) throw gone()
    return await work(fd)
  } finally {
    closeSync(fd)
  }
}

/** Synchronous: nothing here waits for a disk, and the threads of the pool are busy when a sandbox wakes. */
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
