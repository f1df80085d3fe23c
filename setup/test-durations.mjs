// Records how long each test file takes, so that the longest begin first: node setup/test-durations.mjs REPORT.json
import { readFileSync, writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const repo = fileURLToPath(new URL('..', import.meta.url))
export const DURATIONS = fileURLToPath(new URL('test-durations.json', import.meta.url))
/** Shorter ones may begin at any time. */
const MIN_SECONDS = 5

/**
 * The seconds that each file took, longest first.
 *
 * @param {string} text a JSON report of vitest
 * @param {string} root
 * @returns {Record<string, number>}
 */
export function readDurations(text, root) {
  /** @type {{ testResults: { name: string, startTime: number, endTime: number }[] }} */
  const { testResults } = JSON.parse(text)
  const entries = testResults
    .map(({ name, startTime, endTime }) => ({
      path: relative(root, name),
      seconds: Math.round((endTime - startTime) / 1000),
    }))
    .filter(({ seconds }) => seconds >= MIN_SECONDS)
    .sort((one, other) => other.seconds - one.seconds || one.path.localeCompare(other.path))
  /** @type {Record<string, number>} */
  const durations = {}
  // Of a file that several projects run, the longest counts.
  for (const { path, seconds } of entries) durations[path] ??= seconds
  return durations
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const durations = readDurations(readFileSync(process.argv[2] ?? '/dev/stdin', 'utf8'), repo)
  writeFileSync(DURATIONS, `${JSON.stringify(durations, null, 2)}\n`)
}
