import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { constants, Script } from 'node:vm'
import { IMPORT } from './module-syntax.mjs'

/** Makes `require` and imports of cells start at the working directory, as in a file there. */
export class ModuleLoading {
  #directory = ''
  /** @type {unknown} */
  #require

  /** Follows process.chdir(). Called before every cell. */
  update() {
    const directory = process.cwd()
    if (directory === this.#directory) return
    this.#directory = directory
    const file = join(directory, 'cell.js')
    const loader = constants.USE_MAIN_CONTEXT_DEFAULT_LOADER
    const options = { filename: file, importModuleDynamically: loader }
    const load = new Script('(name, options) => import(name, options)', options).runInThisContext()
    const url = pathToFileURL(file).href
    load.meta = { url, dirname: directory, filename: file }
    Object.defineProperty(globalThis, IMPORT, { value: load, configurable: true, enumerable: false })
    this.#provideRequire(createRequire(file))
  }

  /** @param {NodeJS.Require} require */
  #provideRequire(require) {
    const given = /** @type {any} */ (globalThis).require
    // Keeps what user code has put in its place.
    if (given !== undefined && given !== this.#require) return
    this.#require = require
    Object.defineProperty(globalThis, 'require', { value: require, configurable: true, writable: true })
  }
}
