import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * Files that record the inputs with which each step last succeeded.
 * @param {string} directory
 */
export function openStamps(directory) {
  const path = (/** @type {string} */ id) => join(directory, id)
  return {
    /** @param {string} id */
    read(id) {
      try {
        return readFileSync(path(id), 'utf8')
      } catch {
        return undefined
      }
    },
    /** @param {string} id @param {string} hash */
    write(id, hash) {
      mkdirSync(dirname(path(id)), { recursive: true })
      const fd = openSync(`${path(id)}.new`, 'w')
      writeSync(fd, hash)
      fsyncSync(fd)
      closeSync(fd)
      renameSync(`${path(id)}.new`, path(id))
    },
    /** @param {string} id */
    remove(id) {
      rmSync(path(id), { force: true })
    },
  }
}
