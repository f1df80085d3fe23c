import { complete } from './completion.mjs'
import { reportOf } from './error-report.mjs'
import { Evaluator } from './evaluator.mjs'
import { HOOK_MS } from './limits.mjs'
import { ModuleLoading } from './module-loading.mjs'
import { rewriteModuleSyntax, wrapObjectLiteral } from './module-syntax.mjs'
import { reseedMathRandom, reseedOpenssl } from './reseed.mjs'
import { formsOf } from './results.mjs'
import { removeTypes } from './typescript.mjs'
import { UserObject } from './user-object.mjs'
import { readRows } from './variable-rows.mjs'
import { listVariables } from './variables.mjs'

/** @type {Record<string, import('./user-object.mjs').HookKind | undefined>} */
const HOOKS_OF_REASON = { resume: 'onResume', rollback: 'onResume', fork: 'onFork' }

/** Runs cells one at a time, and answers what the agent asks between them. */
export class Kernel {
  #control
  #streams
  #interrupts
  #evaluator = new Evaluator()
  #modules = new ModuleLoading()
  #user
  #cells = 0
  /** Ends the current run, with an exit code. @type {((end: RunEnd) => void) | undefined} */
  #endRun
  /** @type {Record<string, any>[]} */
  #wakes = []

  /**
   * @param {import('./control.mjs').Control} control
   * @param {{ stdout: import('node:stream').Writable, stderr: import('node:stream').Writable }} streams
   * @param {import('./interrupts.mjs').Interrupts} interrupts
   */
  constructor(control, streams, interrupts) {
    this.#control = control
    this.#streams = streams
    this.#interrupts = interrupts
    this.#user = new UserObject(control)
  }

  start() {
    this.#user.install()
    this.#modules.update()
    process.on('uncaughtException', (error) => this.#reportStray(error))
    process.on('unhandledRejection', (error) => this.#reportStray(error))
    process.exit = (code = process.exitCode) => this.#exit(Number(code ?? 0))
    this.#control.send({ type: 'ready' })
  }

  /** @param {Record<string, any>} message */
  async take(message) {
    if (message.type === 'run') await this.#run(message)
    else if (message.type === 'interrupt') this.#interrupts.interrupt()
    else if (message.type === 'input') this.#user.answer(message)
    else if (message.type === 'env') Object.assign(process.env, message.env)
    else if (message.type === 'wake') await this.#wake(message)
    else if (message.type === 'complete')
      this.#answer(message, await complete(this.#evaluator, String(message.code)))
    else if (message.type === 'variables') this.#answer(message, await listVariables(this.#evaluator))
    else if (message.type === 'rows')
      this.#answer(message, await readRows(this.#evaluator, /** @type {any} */ (message)))
    // Preloading imports modules of Python.
    else if (message.type === 'preload') this.#answer(message, { failed: message.modules })
  }

  /** @typedef {{ code: number, error?: import('./error-report.mjs').ErrorReport }} RunEnd */

  /** @param {Record<string, any>} message */
  async #run({ code, language, input }) {
    this.#user.areAnswered = input === true
    /** @type {Promise<RunEnd>} */
    const ended = new Promise((resolve) => {
      this.#endRun = resolve
    })
    this.#interrupts.arm(() => this.#endRun?.({ code: 130, error: INTERRUPTED }))
    void this.#execute(String(code), language).then((end) => this.#endRun?.(end))
    const { code: exitCode, error } = await ended
    this.#interrupts.disarm()
    this.#endRun = undefined
    this.#user.areAnswered = false
    if (error !== undefined) {
      this.#streams.stderr.write(error.traceback)
      this.#control.send({ type: 'error', ...error })
    }
    this.#control.send({ type: 'done', code: exitCode })
    await this.#finishWakes()
  }

  /**
   * @param {string} code
   * @param {string} language
   * @returns {Promise<RunEnd>}
   */
  async #execute(code, language) {
    this.#cells += 1
    this.#modules.update()
    let source
    try {
      source = wrapObjectLiteral(rewriteModuleSyntax(language === 'typescript' ? removeTypes(code) : code))
    } catch (error) {
      return { code: 1, error: reportOf(error, { code }) }
    }
    const outcome = await this.#evaluator.evaluate(source, `cell-${this.#cells}.js`)
    if ('terminated' in outcome) return { code: 130, error: INTERRUPTED }
    if ('thrown' in outcome) {
      if (outcome.thrown instanceof Exit) return { code: outcome.thrown.code }
      return { code: 1, error: reportOf(outcome.thrown, { code, details: outcome.details }) }
    }
    if (outcome.value !== undefined) {
      const data = await formsOf(outcome.value)
      this.#control.send({ type: 'result', data, main: true })
    }
    return { code: 0 }
  }

  /**
   * Ends the run, not the kernel: variables stay. Between runs it ends only the function that called it.
   * @param {number} code
   * @returns {never}
   */
  #exit(code) {
    process.exitCode = undefined
    this.#endRun?.({ code: code & 0xff })
    throw new Exit(code & 0xff)
  }

  /** An error of a timer, a server or a promise that nothing awaits. @param {unknown} error */
  #reportStray(error) {
    if (error instanceof Exit) return
    this.#streams.stderr.write(`Uncaught ${reportOf(error).traceback}`)
  }

  /** Updates identity and seeds at once, and calls hooks when no run is active. @param {Record<string, any>} message */
  async #wake(message) {
    Object.assign(process.env, message.env)
    if (message.reseed === true) reseedMathRandom()
    if (!reseedOpenssl()) this.#streams.stderr.write(NOT_RESEEDED)
    this.#wakes.push(message)
    if (this.#endRun === undefined) await this.#finishWakes()
  }

  async #finishWakes() {
    const wakes = this.#wakes.splice(0)
    const kinds = new Set(wakes.map(({ reason }) => HOOKS_OF_REASON[reason]))
    for (const kind of kinds)
      if (kind !== undefined) for (const hook of this.#user.hooks(kind)) await this.#callHook(kind, hook)
    for (const wake of wakes) this.#answer(wake, {})
  }

  /**
   * @param {string} kind
   * @param {Function} hook
   */
  async #callHook(kind, hook) {
    const title = `dormouse: the function ${hook.name || '(anonymous)'} of dormouse.${kind}`
    /** @type {NodeJS.Timeout | undefined} */
    let timer
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, HOOK_MS, 'late')
    })
    try {
      if ((await Promise.race([hook(), late])) === 'late')
        this.#streams.stderr.write(`${title} takes longer than ${HOOK_MS / 1000} s\n`)
    } catch (error) {
      this.#streams.stderr.write(`${title} failed\n${reportOf(error).traceback}`)
    } finally {
      clearTimeout(timer)
    }
  }

  /**
   * @param {Record<string, any>} message
   * @param {Record<string, unknown>} answer
   */
  #answer({ request }, answer) {
    this.#control.send({ type: 'answer', request, ...answer })
  }
}

/** Thrown by process.exit() to stop the code that called it. */
class Exit {
  /** @param {number} code */
  constructor(code) {
    this.code = code
  }
}

const NOT_RESEEDED =
  'dormouse: the random generator of OpenSSL could not be reseeded, so forks may agree on random bytes\n'
const INTERRUPTED = {
  name: 'KeyboardInterrupt',
  message: 'the run was interrupted',
  traceback: 'KeyboardInterrupt: the run was interrupted\n',
}
