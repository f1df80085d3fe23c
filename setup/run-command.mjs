import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

const TAIL_LINES = 20
const LINE_MAX_CHARACTERS = 500
const KILL_AFTER_MS = 10_000

class CommandError extends Error {
  /**
   * @param {string} message
   * @param {readonly string[]} output the last lines it printed
   */
  constructor(message, output) {
    super(message)
    this.output = output
  }
}

/**
 * @typedef {object} Command
 * @property {readonly [string, ...string[]]} argv
 * @property {string} [cwd]
 * @property {Record<string, string | undefined>} [env]
 * @property {AbortSignal} [signal]
 * @property {(line: string) => void} [onLine]
 * @property {number} [tailLines]
 * @property {readonly number[]} [heldFds] lock files that the command keeps open while it runs
 */

/**
 * Runs a program in its own process group, so that the whole group can be killed, and waits for its end.
 * @param {Command} command
 * @returns {Promise<string>} its stdout
 */
export async function runCommand(command) {
  const { argv, cwd, env, signal, onLine, tailLines = TAIL_LINES, heldFds = [] } = command
  signal?.throwIfAborted()
  const [program, ...args] = argv
  const child = spawn(program, args, {
    cwd,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', ...heldFds],
  })
  /** @type {string[]} */
  const tail = []
  let stdout = ''
  const read = async (/** @type {import('node:stream').Readable} */ stream) => {
    for await (const line of createInterface({ input: stream })) {
      if (stream === child.stdout) stdout += `${line}\n`
      tail.push(line.slice(0, LINE_MAX_CHARACTERS))
      if (tail.length > tailLines) tail.shift()
      onLine?.(line)
    }
  }
  const stop = endOnAbort(child, signal)
  try {
    const streams = [child.stdout, child.stderr].map((stream) => stream && read(stream))
    const [ending] = await Promise.all([waitForEnd(child), ...streams])
    signal?.throwIfAborted()
    if (ending !== undefined) throw new CommandError(`${argv.join(' ')}: ${ending}`, tail)
    return stdout
  } finally {
    stop()
  }
}

/**
 * Runs a program that uses the terminal itself. Returns its exit status.
 * @param {Command & { isNote?: boolean }} command with `isNote`, its stdout goes to stderr
 * @returns {Promise<number>}
 */
export async function runInForeground({ argv: [program, ...args], cwd, env, signal, isNote = false }) {
  signal?.throwIfAborted()
  const child = spawn(program, args, { cwd, env, stdio: ['inherit', isNote ? 2 : 'inherit', 'inherit'] })
  const forward = () => child.kill('SIGTERM')
  signal?.addEventListener('abort', forward, { once: true })
  try {
    await waitForEnd(child)
    signal?.throwIfAborted()
    return child.exitCode ?? 1
  } finally {
    signal?.removeEventListener('abort', forward)
  }
}

/**
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<string | undefined>} how it failed
 */
function waitForEnd(child) {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('exit', (code, signal) => {
      if (code === 0) resolve(undefined)
      else resolve(code === null ? `ended by ${signal}` : `exit status ${code}`)
    })
  })
}

/**
 * @param {import('node:child_process').ChildProcess} child
 * @param {AbortSignal | undefined} signal
 */
function endOnAbort(child, signal) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer
  const end = (/** @type {NodeJS.Signals} */ name) => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, name)
    } catch {
      // The group is already gone.
    }
  }
  const stop = () => {
    end('SIGTERM')
    timer = setTimeout(() => end('SIGKILL'), KILL_AFTER_MS)
  }
  signal?.addEventListener('abort', stop, { once: true })
  return () => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
  }
}
