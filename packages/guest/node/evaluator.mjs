import { Session } from 'node:inspector'
import { promiseHooks } from 'node:v8'

/** How a cell ended. `terminated`: an interrupt stopped it. */
/** @typedef {{ value: unknown } | { thrown: unknown, details: Record<string, any> } | { terminated: true }} Outcome */

/**
 * Evaluates cells with V8's own mode for consoles: `await` at the top, and `let`, `const` and `class` that a later cell
 * may declare again. Only the inspector offers it; a session within the process opens no port.
 */
export class Evaluator {
  #session = new Session()
  /** The object through which the inspector hands values over. */
  #hand = { value: /** @type {unknown} */ (undefined) }
  /** @type {string | undefined} */
  #handId
  /** Cells that have not settled. Those that were interrupted may never do. @type {Set<unknown>} */
  #held = new Set()

  constructor() {
    this.#session.connect()
  }

  /**
   * @param {string} code
   * @param {string} name
   * @returns {Promise<Outcome>}
   */
  async evaluate(code, name) {
    const expression = `${code}\n//# sourceURL=${name}`
    const options = { expression, replMode: true, awaitPromise: true, objectGroup: 'cell' }
    const answer = await this.#evaluateCell(options)
    if (answer === undefined) return { terminated: true }
    try {
      const value = await this.#valueOf(answer.result)
      return answer.exceptionDetails === undefined
        ? { value }
        : { thrown: value, details: answer.exceptionDetails }
    } finally {
      // The inspector would keep every value of every cell alive.
      await this.#post('Runtime.releaseObjectGroup', { objectGroup: 'cell' })
    }
  }

  /**
   * Keeps the promise of a cell alive until it settles. If it were collected, after an interrupt, the inspector would
   * report that from inside the garbage collector, where Node must not call JavaScript and aborts.
   * @param {Record<string, unknown>} options
   * @returns {Promise<Record<string, any> | undefined>}
   */
  #evaluateCell(options) {
    /** @type {(answer: Record<string, any> | undefined) => void} */
    let settle = () => {}
    const answer = new Promise((resolve) => {
      settle = resolve
    })
    /** @type {Promise<unknown> | undefined} */
    let cell
    // The first promise that V8 makes from here on is that of the cell. Then come those of its code.
    const stop = promiseHooks.onInit((promise) => {
      cell ??= promise
    })
    let isSettled = false
    this.#session.post(
      'Runtime.evaluate',
      options,
      (/** @type {unknown} */ error, /** @type {any} */ found) => {
        isSettled = true
        this.#held.delete(cell)
        settle(error === null ? found : undefined)
      },
    )
    stop()
    if (!isSettled) this.#held.add(cell)
    return answer
  }

  /** Names of `let`, `const` and `class` that cells have declared. They are not properties of globalThis. */
  async declaredNames() {
    const answer = await this.#post('Runtime.globalLexicalScopeNames', {})
    return /** @type {string[]} */ (answer?.names ?? [])
  }

  /**
   * Evaluates an expression that must not change anything; `undefined` when it would, or fails.
   * @param {string} expression
   * @param {number} timeout in ms
   * @returns {Promise<{ value: unknown } | undefined>}
   */
  async peek(expression, timeout) {
    const options = { expression, throwOnSideEffect: true, timeout, objectGroup: 'peek', silent: true }
    const answer = await this.#post('Runtime.evaluate', options)
    if (answer === undefined || answer.exceptionDetails !== undefined) return undefined
    const boxed = await this.#boxOf(answer.result)
    await this.#post('Runtime.releaseObjectGroup', { objectGroup: 'peek' })
    return boxed
  }

  /** @param {Record<string, any>} remote */
  async #valueOf(remote) {
    return (await this.#boxOf(remote)).value
  }

  /**
   * In a box, because a promise that resolves with the value itself would ask it for `then`, which may run user code.
   * @param {Record<string, any>} remote
   */
  async #boxOf(remote) {
    if (remote.objectId === undefined) return { value: primitiveOf(remote) }
    this.#handId ??= await this.#findHand()
    await this.#post('Runtime.callFunctionOn', {
      functionDeclaration: 'function (value) { this.value = value }',
      objectId: this.#handId,
      arguments: [{ objectId: remote.objectId }],
    })
    const { value } = this.#hand
    this.#hand.value = undefined
    return { value }
  }

  async #findHand() {
    const name = `__dormouse_${process.hrtime.bigint()}`
    Object.defineProperty(globalThis, name, { value: this.#hand, configurable: true })
    const answer = await this.#post('Runtime.evaluate', { expression: name })
    Reflect.deleteProperty(globalThis, name)
    return answer?.result.objectId
  }

  /**
   * Undefined when V8 terminated what the method ran.
   * @param {string} method
   * @param {Record<string, unknown>} options
   * @returns {Promise<Record<string, any> | undefined>}
   */
  #post(method, options) {
    return new Promise((resolve) =>
      this.#session.post(method, options, (/** @type {unknown} */ error, /** @type {any} */ answer) =>
        resolve(error === null ? answer : undefined),
      ),
    )
  }
}

/** @param {Record<string, any>} remote */
function primitiveOf({ type, subtype, value, unserializableValue }) {
  if (type === 'undefined') return undefined
  if (subtype === 'null') return null
  if (unserializableValue === undefined) return value
  return type === 'bigint' ? BigInt(unserializableValue.slice(0, -1)) : Number(unserializableValue)
}
