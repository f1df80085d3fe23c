// Prints the files of a vitest JSON report in which something failed, if they are few: a change that breaks many is
// broken, and running them again proves nothing.
import { existsSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const MOST_FILES = 12

/**
 * @param {string} text
 * @param {string} root
 */
export function failedFiles(text, root) {
  /** @type {{ name: string, status: string }[]} */
  const files = text.trim() === '' ? [] : JSON.parse(text).testResults
  const failed = files.filter(({ status }) => status === 'failed').map(({ name }) => relative(root, name))
  return failed.length > MOST_FILES ? [] : failed
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , report = ''] = process.argv
  const text = existsSync(report) ? readFileSync(report, 'utf8') : ''
  console.log(failedFiles(text, process.cwd()).join(' '))
}
