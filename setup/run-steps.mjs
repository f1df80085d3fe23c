import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { lockFile } from './file-lock.mjs'
import { ProgressLine } from './progress-line.mjs'
import { runCommand } from './run-command.mjs'
import { openStamps } from './stamps.mjs'

/**
 * @typedef {Pick<ProgressLine, 'update' | 'finish' | 'note' | 'clear'> & {
 *   start(step: { id: string, title: string }): void, inPlace(step: { id: string, title: string }): void }} Progress
 *
 * @typedef {object} Context
 * @property {string} repoDir
 * @property {string} dataDir
 * @property {AbortSignal} signal
 * @property {import('./progress-line.mjs').Output} output
 * @property {Progress} [progress] receives the steps, instead of a line on `output`
 * @property {boolean} [quiet] does not report steps that are in place
 *
 * @typedef {object} Work for a running step
 * @property {(progress: { percent?: number, doing?: string }) => void} report
 * @property {(command: import('./run-command.mjs').Command) => Promise<string>} run
 * @property {AbortSignal} signal
 *
 * @typedef {object} Step
 * @property {string} id
 * @property {string} title
 * @property {'repo' | 'data'} scope where its result lives, and its stamp with it
 * @property {string} hint shown when it fails
 * @property {(context: Context) => string} inputs a hash of everything that the result depends on
 * @property {(context: Context) => boolean | Promise<boolean>} isInPlace cheaply checks that the result still exists
 * @property {(work: Work, context: Context) => Promise<unknown>} run
 */

export class StepError extends Error {
  /**
   * @param {Step} step
   * @param {unknown} cause
   */
  constructor(step, cause) {
    super(`${step.title}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
    this.step = step
  }
}

/** A directory of set-up that cannot be used: a file in its place, a read-only disk, no rights. */
class DirectoryError extends Error {
  code = 'setup_failed'

  /**
   * @param {string} directory
   * @param {Step['scope']} scope
   * @param {unknown} cause
   */
  constructor(directory, scope, cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    super(`the directory ${directory} cannot be used: ${reason}`, { cause })
    this.hint =
      scope === 'data'
        ? 'Choose another data directory with --data DIR, on a disk that root can write to.'
        : 'Set-up writes into the clone: put it on a disk that root can write to.'
  }
}

/**
 * Brings every step up to date, one after another. A lock keeps other set-ups out of the same directories.
 * @param {readonly Step[]} steps
 * @param {Context} context
 */
export async function runSteps(steps, context) {
  const line = context.progress ?? new ProgressLine(context.output)
  const locks = []
  try {
    for (const scope of new Set(steps.map((step) => step.scope))) {
      locks.push(await lockScope(scope, context, line))
    }
    const heldFds = locks.map((lock) => lock.fd)
    for (const step of steps) await bringUpToDate(step, { context, line, heldFds })
  } finally {
    line.clear()
    for (const lock of locks) lock.release()
  }
}

/**
 * @param {Step['scope']} scope
 * @param {Context} context
 */
function scopeDirectory(scope, { repoDir, dataDir }) {
  return scope === 'repo' ? join(repoDir, '.dormouse') : dataDir
}

/**
 * @param {Step['scope']} scope
 * @param {Context} context
 * @param {Progress} line
 */
async function lockScope(scope, context, line) {
  const directory = scopeDirectory(scope, context)
  const { signal } = context
  try {
    mkdirSync(directory, { recursive: true, mode: 0o711 })
    return await lockFile(join(directory, 'setup.lock'), {
      signal,
      onWait: (pid) =>
        line.note(`Another set-up (process ${pid || 'unknown'}) is running here; waiting for it to finish.`),
    })
  } catch (error) {
    signal.throwIfAborted()
    throw new DirectoryError(directory, scope, error)
  }
}

/**
 * @param {Step} step
 * @param {{ context: Context, line: Progress, heldFds: number[] }} running
 */
async function bringUpToDate(step, { context, line, heldFds }) {
  context.signal.throwIfAborted()
  const stamps = openStamps(join(scopeDirectory(step.scope, context), 'stamps'))
  const hash = step.inputs(context)
  if (stamps.read(step.id) === hash && (await step.isInPlace(context))) {
    if (context.quiet !== true) line.inPlace(step)
    return
  }
  // The old stamp does not describe a result that is being replaced.
  stamps.remove(step.id)
  line.start(step)
  const { signal } = context
  // Programs may take seconds to clean up; this shows that Ctrl-C was received.
  const onStop = () => line.note('Stopping...')
  signal.addEventListener('abort', onStop, { once: true })
  try {
    await step.run(
      {
        signal,
        report: (progress) => line.update(progress),
        run: (command) => runCommand({ heldFds, signal, ...command }),
      },
      context,
    )
    if (!(await step.isInPlace(context))) throw new Error('the step succeeded, but its result is missing')
    stamps.write(step.id, hash)
    line.finish('ok')
  } catch (error) {
    line.finish(signal.aborted ? 'stopped' : 'failed')
    signal.throwIfAborted()
    throw new StepError(step, error)
  } finally {
    signal.removeEventListener('abort', onStop)
  }
}
