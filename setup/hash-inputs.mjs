import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'

const GENERATED = new Set(['node_modules', 'dist', 'build', '__pycache__'])

/**
 * @param {readonly unknown[]} inputs JSON values
 * @returns {string}
 */
export function hashOf(...inputs) {
  return createHash('sha256').update(JSON.stringify(inputs)).digest('hex')
}

/**
 * Hashes name and content of every file below `root` that `wanted` selects, in a fixed order, without generated
 * folders.
 * @param {string} root
 * @param {(path: string) => boolean} wanted gets the path relative to root
 * @returns {string}
 */
export function hashFiles(root, wanted = () => true) {
  const hash = createHash('sha256')
  for (const path of listFiles(root, root).sort()) {
    if (!wanted(path)) continue
    const content = readFileSync(join(root, path))
    hash.update(`${path}\0${content.length}\0`).update(content)
  }
  return hash.digest('hex')
}

/**
 * @param {string} directory
 * @param {string} root
 * @returns {string[]}
 */
function listFiles(directory, root) {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) return GENERATED.has(entry.name) ? [] : listFiles(path, root)
    return entry.isFile() ? [relative(root, path)] : []
  })
}
