// Prints "N passed, N failed" for vitest JSON reports; fails when anything failed or nothing ran. Of a file in two
// reports the later one counts.
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/**
 * @typedef {{ name: string, status: string, assertionResults: { status: string, fullName?: string }[] }} FileResult
 * @param {string[]} reports
 */
export function countTests(...reports) {
  /** @type {Map<string, FileResult>} */
  const files = new Map()
  for (const text of reports.filter((each) => each.trim() !== ''))
    for (const file of JSON.parse(text).testResults) files.set(file.name, file)
  const count = { passed: 0, failed: 0, skipped: 0 }
  for (const { status, assertionResults } of files.values()) {
    const failedBefore = count.failed
    for (const test of assertionResults) {
      if (test.status === 'passed') count.passed++
      else if (test.status === 'failed') count.failed++
      else count.skipped++
    }
    // A file that could not even be loaded has no tests to blame.
    if (status === 'failed' && count.failed === failedBefore) count.failed++
  }
  return count
}

/**
 * @param {string} text
 * @returns {string[]}
 */
function failedTests(text) {
  /** @type {FileResult[]} */
  const files = text.trim() === '' ? [] : JSON.parse(text).testResults
  return files
    .flatMap(({ assertionResults }) => assertionResults)
    .flatMap(({ status, fullName = 'a test' }) => (status === 'failed' ? fullName : []))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const reports = process.argv.slice(2).filter((path) => existsSync(path))
  const texts = reports.map((path) => readFileSync(path, 'utf8'))
  for (const name of failedTests(texts[0] ?? '')) console.log(`failed at first: ${name}`)
  const { passed, failed, skipped } = countTests(...texts)
  console.log(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
  process.exitCode = failed > 0 || passed === 0 ? 1 : 0
}
