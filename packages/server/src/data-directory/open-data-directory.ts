import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { FileLock } from '@dormouse/engine-linux/setup'

/**
 * Creates the directory if needed and locks it for this process. The kernel releases the lock when the process ends,
 * also after `kill -9`. Dispose to release it earlier.
 */
export async function openDataDirectory(dataDir: string): Promise<AsyncDisposable> {
  await mkdir(dataDir, { recursive: true, mode: 0o711 }).catch((cause) => {
    throw new DormouseError(
      'setup_failed',
      `The data directory ${dataDir} cannot be made: ${cause.message}`,
      {
        hint: 'Choose another one with --data.',
        cause,
      },
    )
  })
  const lock = await FileLock.tryAcquire(join(dataDir, 'lock'))
  if (lock instanceof FileLock) return lock
  const holder = lock.heldBy === undefined ? 'another process' : `process ${lock.heldBy}`
  throw new DormouseError('data_dir_locked', `The data directory ${dataDir} is in use by ${holder}`, {
    details: { dataDir, pid: lock.heldBy },
  })
}
