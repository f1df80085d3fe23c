import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type FileHandle, open } from 'node:fs/promises'
import { DormouseError } from '@dormouse/contracts'

/** flock(1) ends with this status when another process holds the lock. */
const CONFLICT_STATUS = 75

export class FileLock implements AsyncDisposable {
  private constructor(private readonly handle: FileHandle) {}

  /**
   * Takes the lock, or returns the pid of its holder (undefined when it cannot be read).
   * The kernel keeps an flock with the open file, not with the process that asked for it: flock(1) locks the file that
   * we opened and ends, and we still hold the lock. It is free the moment this process ends, however it ends.
   */
  static async tryAcquire(path: string): Promise<FileLock | { heldBy: number | undefined }> {
    const handle = await open(path, 'a+', 0o600)
    try {
      if (await lockOpenFile(handle.fd)) {
        await handle.truncate(0)
        await handle.write(`${process.pid}\n`)
        return new FileLock(handle)
      }
      const heldBy = Number.parseInt(await handle.readFile('utf8'), 10)
      await handle.close()
      return { heldBy: Number.isNaN(heldBy) ? undefined : heldBy }
    } catch (error) {
      // The caller gets the first error.
      await handle.close().catch(() => {})
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.handle.close()
  }
}

async function lockOpenFile(fd: number): Promise<boolean> {
  const argv = ['--exclusive', '--nonblock', '--conflict-exit-code', String(CONFLICT_STATUS), '3']
  const child = spawn('flock', argv, { stdio: ['ignore', 'ignore', 'ignore', fd] })
  const [status] = await once(child, 'exit').catch((cause) => {
    throw new DormouseError('setup_failed', 'flock (package util-linux) could not be started', { cause })
  })
  if (status === 0) return true
  if (status === CONFLICT_STATUS) return false
  throw new DormouseError('setup_failed', `flock ended with status ${status}`)
}
