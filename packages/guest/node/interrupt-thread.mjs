import { readdirSync, readFileSync, readSync } from 'node:fs'
import { Session } from 'node:inspector'
import { workerData } from 'node:worker_threads'
import { BUSY_AFTER_MS, TERMINATIONS_BEFORE_CHILDREN } from './limits.mjs'

// Blocks in read() between interrupts, so it costs no time while nothing happens.
const { pipe, active } = workerData
const session = new Session()
session.connectToMainThread()
const byte = Buffer.alloc(1)
while (readSync(pipe, byte) > 0) {
  const run = Atomics.load(active, 0)
  // Code that begins to run again after it was terminated, such as a timer, is terminated again.
  for (let count = 1; run !== 0 && isStillActive(run); count += 1) {
    session.post('Runtime.terminateExecution', () => {})
    if (count === TERMINATIONS_BEFORE_CHILDREN) interruptChildren()
  }
}

/** @param {number} run */
function isStillActive(run) {
  return Atomics.wait(active, 0, run, BUSY_AFTER_MS) === 'timed-out'
}

/** A main thread that cannot be terminated waits for a program, in execSync() and the like. */
function interruptChildren() {
  for (const pid of descendantsOf(process.pid)) {
    try {
      process.kill(pid, 'SIGINT')
    } catch {
      // It has just ended.
    }
  }
}

/**
 * @param {number} ancestor
 * @returns {number[]}
 */
function descendantsOf(ancestor) {
  const parents = new Map(readdirSync('/proc').filter(isNumber).map(parentOf))
  const isBelow = (/** @type {number | undefined} */ pid) => {
    for (
      let one = pid, steps = 0;
      one !== undefined && steps < parents.size;
      one = parents.get(one), steps += 1
    )
      if (one === ancestor) return true
    return false
  }
  return [...parents.keys()].filter((pid) => pid !== ancestor && isBelow(pid))
}

/** @param {string} name */
function isNumber(name) {
  return /^\d+$/.test(name)
}

/**
 * @param {string} pid
 * @returns {[number, number]}
 */
function parentOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name before the last parenthesis may contain anything.
    return [Number(pid), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])]
  } catch {
    return [Number(pid), 0]
  }
}
