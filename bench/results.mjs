import { readFile } from 'node:fs/promises'

/** What a benchmark has measured, or undefined if it has not run. */
export async function readResult(name) {
  try {
    return JSON.parse(await readFile(new URL(`results/${name}.json`, import.meta.url), 'utf8')).result
  } catch (error) {
    if (error.code === 'ENOENT') return undefined
    throw error
  }
}
