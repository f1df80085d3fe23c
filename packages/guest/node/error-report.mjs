import { ERROR_MESSAGE_CHARS, TRACEBACK_CHARS } from './limits.mjs'
import { boundText, textOf } from './results.mjs'
import { keepUserFrames } from './user-frames.mjs'

/** @typedef {{ name: string, message: string, traceback: string }} ErrorReport */

/**
 * @param {unknown} thrown
 * @param {{ code?: string, details?: Record<string, any> }} [where]
 * @returns {ErrorReport}
 */
export function reportOf(thrown, { code, details } = {}) {
  try {
    return describe(thrown, code, details)
  } catch {
    // Properties of user code may throw.
    return {
      name: 'Error',
      message: 'an error that cannot be shown',
      traceback: 'Error: an error that cannot be shown\n',
    }
  }
}

/**
 * @param {any} thrown
 * @param {string | undefined} code
 * @param {Record<string, any> | undefined} details
 * @returns {ErrorReport}
 */
function describe(thrown, code, details) {
  const isError = thrown instanceof Error || Object.prototype.toString.call(thrown) === '[object Error]'
  const name = isError ? String(thrown.name || 'Error') : 'Uncaught'
  const message = isError ? String(thrown.message) : textOf(thrown)
  const shown = isError ? showError(thrown) : `Uncaught ${textOf(thrown)}`
  const place = isError && thrown.name === 'SyntaxError' ? placeOf(code, details) : ''
  return {
    name: boundText(name, 256),
    message: boundText(message, ERROR_MESSAGE_CHARS),
    traceback: boundText(`${place}${shown}\n`, TRACEBACK_CHARS),
  }
}

/** The stack with the frames of user code only, and the causes and properties that Node shows. @param {Error} error */
function showError(error) {
  return keepUserFrames(textOf(error)).replace(/^:(\d+)\n/, 'line $1\n')
}

/**
 * The line that V8 could not parse, with a mark under the place.
 * @param {string | undefined} code
 * @param {Record<string, any> | undefined} details
 */
function placeOf(code, details) {
  if (details?.lineNumber === undefined || details.stackTrace?.callFrames?.some(isCellFrame)) return ''
  const line = code?.split('\n')[details.lineNumber]
  if (line === undefined || line.length > 1_000) return ''
  return `${details.url || 'cell'}:${details.lineNumber + 1}\n${line}\n${' '.repeat(details.columnNumber)}^\n`
}

/** @param {{ url?: string }} frame */
function isCellFrame({ url }) {
  return url?.startsWith('cell-') === true
}
