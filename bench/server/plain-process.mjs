import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The control of sandboxes that are new or wake: a Python of the host that starts, prints and ends. Returns its ms. */
export async function timePlainPython() {
  const began = performance.now()
  await run('/usr/bin/python3', ['-c', 'print(1)'])
  return performance.now() - began
}

/** Does `work` for all items, so many at a time. Returns its results and how many there were per second. */
export async function inParallel(workers, items, work) {
  const waiting = [...items]
  const results = []
  const began = performance.now()
  const workAll = async () => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) results.push(await work(next))
  }
  await Promise.all(Array.from({ length: workers }, workAll))
  return { results, perSecond: (results.length * 1000) / (performance.now() - began) }
}
