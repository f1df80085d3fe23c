// Prints "N passed, N failed" for a vitest JSON report; fails when anything failed or nothing ran.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/**
 * @typedef {{ status: string, assertionResults: { status: string }[] }} FileResult
 * @param {string} text
 */
export function countTests(text) {
  /** @type {FileResult[]} */
  const files = text.trim() === '' ? [] : JSON.parse(text).testResults
  const count = { passed: 0, failed: 0, skipped: 0 }
  for (const { status, assertionResults } of files) {
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

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { passed, failed, skipped } = countTests(readFileSync(process.argv[2] ?? '/dev/stdin', 'utf8'))
  console.log(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
  process.exitCode = failed > 0 || passed === 0 ? 1 : 0
}
