// Prints "N passed, N failed" for vitest JSON reports; fails when anything failed or nothing ran. Of a file in two
// reports the later one counts. Names the tests that failed at first, with the reason, and the files that left tests out.
import { existsSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Of a reason, which the output of the run has in full. */
const REASON_MAX_CHARACTERS = 300

/**
 * @typedef {{ status: string, fullName?: string, failureMessages?: string[] }} TestResult
 * @typedef {{ name: string, status: string, assertionResults: TestResult[] }} FileResult
 * @param {string[]} reports
 */
export function countTests(...reports) {
  const count = { passed: 0, failed: 0, skipped: 0 }
  for (const { passed, failed, skipped } of countByFile(...reports).values()) {
    count.passed += passed
    count.failed += failed
    count.skipped += skipped
  }
  return count
}

/** @param {string[]} reports */
export function countByFile(...reports) {
  /** @type {Map<string, FileResult[]>} */
  const files = new Map()
  for (const text of reports) {
    const results = resultsOf(text)
    // Several projects may have run one file.
    for (const { name } of results)
      files.set(
        name,
        results.filter((file) => file.name === name),
      )
  }
  return new Map([...files].map(([name, results]) => [name, countFile(results)]))
}

/** @param {FileResult[]} results of one file; a test counts as skipped where no project ran it */
function countFile(results) {
  /** @type {Map<string, string>} */
  const tests = new Map()
  const count = { passed: 0, failed: 0, skipped: 0 }
  for (const { status, assertionResults } of results) {
    // A file that could not even be loaded has no tests to blame.
    if (status === 'failed' && !assertionResults.some((test) => test.status === 'failed')) count.failed++
    /** @type {Map<string, number>} */
    const seen = new Map()
    for (const { fullName = '', status: outcome } of assertionResults) {
      // Tests may share a name, and come in the same order in every project.
      const at = seen.get(fullName) ?? 0
      seen.set(fullName, at + 1)
      const key = `${at} ${fullName}`
      const worst = ['failed', 'passed'].find((one) => one === outcome || one === tests.get(key))
      tests.set(key, worst ?? 'skipped')
    }
  }
  for (const status of tests.values()) count[/** @type {'passed'} */ (status)]++
  return count
}

/**
 * The tests that failed, each with the beginning of its reason.
 *
 * @param {string} text
 * @returns {string[]}
 */
export function failedTests(text) {
  return resultsOf(text)
    .flatMap(({ assertionResults }) => assertionResults)
    .filter(({ status }) => status === 'failed')
    .map(({ fullName = 'a test', failureMessages = [] }) => {
      const reason = (failureMessages[0] ?? '').trim().split('\n    at ')[0] ?? ''
      return `${fullName}\n  ${reason.slice(0, REASON_MAX_CHARACTERS).replaceAll('\n', '\n  ')}`.trim()
    })
}

/**
 * @param {string} text
 * @returns {FileResult[]}
 */
function resultsOf(text) {
  return text.trim() === '' ? [] : JSON.parse(text).testResults
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const reports = process.argv.slice(2).filter((path) => existsSync(path))
  const texts = reports.map((path) => readFileSync(path, 'utf8'))
  for (const [name, { skipped }] of countByFile(...texts))
    if (skipped > 0) console.log(`skipped: ${skipped} in ${relative(process.cwd(), name)}`)
  for (const name of failedTests(texts[0] ?? '')) console.log(`failed at first: ${name}`)
  const { passed, failed, skipped } = countTests(...texts)
  console.log(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
  process.exitCode = failed > 0 || passed === 0 ? 1 : 0
}
