// Prints the files of a vitest JSON report in which something failed, those that left an error unhandled, and those whose
// worker ended before them, if they are few: a change that breaks many is broken, and running them again proves nothing.
import { existsSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const MOST_FILES = 12

/**
 * @param {string} text
 * @param {string} root
 * @param {string} unhandled what `unhandled-reporter.mjs` wrote
 */
export function failedFiles(text, root, unhandled = '') {
  /** @type {{ name: string, status: string, assertionResults: { status: string }[] }[]} */
  const files = text.trim() === '' ? [] : JSON.parse(text).testResults
  const others = unhandled.split('\n').slice(0, -1)
  const unfinished = files.filter(isUnfinished).map(({ name }) => name)
  // Without a file, an error cannot be tried again.
  if (others.includes('') && unfinished.length === 0) return []
  const failed = files.filter(({ status }) => status === 'failed').map(({ name }) => name)
  const named = [...failed, ...unfinished, ...others.filter((name) => name !== '')]
  const all = [...new Set(named)].map((name) => relative(root, name))
  return all.length > MOST_FILES ? [] : all
}

/**
 * The worker of a file ended: tests that vitest has begun or queued are `pending`, while those left out are `skipped`.
 *
 * @param {{ status: string, assertionResults: { status: string }[] }} file
 */
function isUnfinished({ status, assertionResults: tests }) {
  return status !== 'failed' && (tests.length === 0 || tests.some((test) => test.status === 'pending'))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [report = '', unhandled = ''] = process.argv
    .slice(2)
    .map((path) => (existsSync(path) ? readFileSync(path, 'utf8') : ''))
  console.log(failedFiles(report, process.cwd(), unhandled).join(' '))
}
