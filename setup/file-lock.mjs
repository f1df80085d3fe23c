import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs'

const CONFLICT_STATUS = 75

/**
 * Waits for the lock. flock(1) locks the file that this process opened, and exits. The kernel ties the lock to the open
 * file, so it is released when this process and every program that inherited the file have exited.
 * @param {string} path
 * @param {{ onWait: (pid: string) => void, signal?: AbortSignal }} options
 * @returns {Promise<{ fd: number, release: () => void }>}
 */
export async function lockFile(path, { onWait, signal }) {
  const fd = openSync(path, 'a+', 0o600)
  try {
    if ((await flock(fd, ['--nonblock', '--conflict-exit-code', String(CONFLICT_STATUS)], signal)) !== 0) {
      onWait(readFileSync(path, 'utf8').trim())
      const status = await flock(fd, [], signal)
      if (status !== 0) throw new Error(`flock ended with status ${status}`)
    }
  } catch (error) {
    closeSync(fd)
    throw error
  }
  nameHolder(fd)
  return { fd, release: () => closeSync(fd) }
}

/**
 * Names this process for those that wait. A server must start on a full disk, so a lock without a name has to do.
 * @param {number} fd
 */
function nameHolder(fd) {
  try {
    ftruncateSync(fd)
    writeSync(fd, `${process.pid}\n`)
  } catch {
    // The lock holds all the same.
  }
}

/**
 * @param {number} fd
 * @param {string[]} options
 * @param {AbortSignal | undefined} signal
 */
async function flock(fd, options, signal) {
  signal?.throwIfAborted()
  const child = spawn('flock', ['--exclusive', ...options, '3'], {
    stdio: ['ignore', 'ignore', 'inherit', fd],
  })
  const stop = () => child.kill('SIGTERM')
  signal?.addEventListener('abort', stop, { once: true })
  const [status] = await once(child, 'exit').finally(() => signal?.removeEventListener('abort', stop))
  signal?.throwIfAborted()
  return status
}
