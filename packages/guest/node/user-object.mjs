import { HOOKS, PROMPT_CHARS } from './limits.mjs'
import { boundForms, formsOf } from './results.mjs'

const SANDBOX_ID = 'DORMOUSE_SANDBOX_ID'

/** @typedef {'onResume' | 'onFork'} HookKind */

/** The global `dormouse`: what a program can learn about its sandbox, and how it shows values and asks questions. */
export class UserObject {
  /** @type {Record<HookKind, Function[]>} */
  #hooks = { onResume: [], onFork: [] }
  #control
  /** @type {Map<number, { resolve: (text: string) => void, reject: (error: Error) => void }>} */
  #questions = new Map()
  #lastQuestion = 0
  /** Whether the caller of the current run answers questions. */
  areAnswered = false

  /** @param {import('./control.mjs').Control} control */
  constructor(control) {
    this.#control = control
  }

  install() {
    const object = Object.freeze({
      /** The id of the sandbox that this code runs in now. A fork changes it, also within a run. */
      sandboxId: () => process.env[SANDBOX_ID] ?? '',
      /** Calls `hook` after this sandbox has slept or was rolled back, before the next run. */
      onResume: (/** @type {Function} */ hook) => this.#register('onResume', hook),
      /** Calls `hook` after this sandbox was forked, in every child and in the parent. */
      onFork: (/** @type {Function} */ hook) => this.#register('onFork', hook),
      /** Shows a value as a result; with `raw` an object of MIME type to value. */
      display: (/** @type {unknown} */ value, { raw = false } = {}) => this.#display(value, raw),
      /** Asks the caller of the run. Fails unless that caller answers questions. */
      input: (prompt = '', { hidden = false } = {}) => this.#ask(String(prompt), hidden === true),
    })
    Object.defineProperty(globalThis, 'dormouse', { value: object, configurable: true, writable: true })
  }

  /** @param {HookKind} kind */
  hooks(kind) {
    return [...this.#hooks[kind]]
  }

  /** @param {Record<string, any>} message */
  answer({ request, text }) {
    const question = this.#questions.get(request)
    this.#questions.delete(request)
    if (text === null || text === undefined) question?.reject(new Error('the input has ended'))
    else question?.resolve(text)
  }

  /**
   * @param {HookKind} kind
   * @param {Function} hook
   */
  #register(kind, hook) {
    if (typeof hook !== 'function')
      throw new TypeError(`dormouse.${kind} takes a function, not ${typeof hook}`)
    const hooks = this.#hooks[kind]
    // A function with the same name replaces an earlier one, so a cell can be run again.
    const known = hooks.findIndex((one) => one === hook || (hook.name !== '' && one.name === hook.name))
    if (known >= 0) hooks[known] = hook
    else if (hooks.length >= HOOKS) throw new Error(`dormouse.${kind} has ${HOOKS} functions already`)
    else hooks.push(hook)
    return hook
  }

  /**
   * @param {unknown} value
   * @param {boolean} raw
   */
  async #display(value, raw) {
    const data = raw ? boundForms(value) : await formsOf(value)
    this.#control.send({ type: 'result', data })
  }

  /**
   * @param {string} prompt
   * @param {boolean} hidden
   * @returns {Promise<string>}
   */
  #ask(prompt, hidden) {
    if (!this.areAnswered) {
      const hint =
        'Put the value into the code, a variable or a file, or run the code with `onInput` of an SDK.'
      return Promise.reject(
        new Error(`this run has no keyboard, so dormouse.input() cannot read an answer. ${hint}`),
      )
    }
    this.#lastQuestion += 1
    const request = this.#lastQuestion
    this.#control.send({ type: 'input', request, prompt: prompt.slice(0, PROMPT_CHARS), hidden })
    return new Promise((resolve, reject) => this.#questions.set(request, { resolve, reject }))
  }
}
