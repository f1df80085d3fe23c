import { inspect, types } from 'node:util'
import {
  RESULT_BINARY_BYTES,
  RESULT_JSON_BYTES,
  RESULT_JSON_DEPTH,
  RESULT_JSON_VALUES,
  RESULT_TEXT_CHARS,
} from './limits.mjs'
import { keepUserFrames } from './user-frames.mjs'

/** A method that returns an object of MIME type to value: what Deno's notebooks call, and libraries offer. */
const DISPLAY = Symbol.for('Jupyter.display')
/** The first bytes of images that a Buffer may hold. */
const IMAGES = /** @type {const} */ ([
  ['image/png', [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ['image/jpeg', [0xff, 0xd8, 0xff]],
  ['image/gif', [0x47, 0x49, 0x46, 0x38]],
])

/**
 * The forms of a value, by MIME type: always text, and others that the value offers.
 * @param {unknown} value
 * @returns {Promise<Record<string, unknown>>}
 */
export async function formsOf(value) {
  const text = textOf(value)
  return {
    'text/plain': types.isNativeError(value) ? keepUserFrames(text) : text,
    ...(await richForms(value)),
  }
}

/** @param {unknown} value */
export function textOf(value) {
  let text
  try {
    text = inspect(value, { depth: 4, maxStringLength: RESULT_TEXT_CHARS, breakLength: 100 })
  } catch (error) {
    text = `[a value that cannot be shown: ${String(/** @type {any} */ (error)?.message)}]`
  }
  return boundText(text, RESULT_TEXT_CHARS)
}

/**
 * @param {string} text
 * @param {number} maxChars
 */
export function boundText(text, maxChars) {
  if (text.length <= maxChars) return text
  const half = Math.floor(maxChars / 2)
  return `${text.slice(0, half)}\n… ${text.length - 2 * half} characters left out …\n${text.slice(-half)}`
}

/**
 * Methods and properties of user code may throw; then the text has to do.
 * @param {any} value
 * @returns {Promise<Record<string, unknown>>}
 */
async function richForms(value) {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return {}
  try {
    if (types.isProxy(value)) return {}
    if (typeof value[DISPLAY] === 'function') return boundForms(await value[DISPLAY]())
    if (types.isUint8Array(value)) return imageOf(value)
    if (typeof value.outerHTML === 'string') return boundForms(elementOf(value))
    const json = jsonOf(value)
    return json === undefined ? {} : { 'application/json': json }
  } catch {
    return {}
  }
}

/**
 * Drops forms that are too large, and turns bytes into base64.
 * @param {unknown} forms
 */
export function boundForms(forms) {
  if (typeof forms !== 'object' || forms === null) return {}
  return Object.fromEntries(
    Object.entries(forms).flatMap(([mime, value]) => {
      const shown = types.isUint8Array(value) ? Buffer.from(value).toString('base64') : value
      const size =
        typeof shown === 'string' ? shown.length : (JSON.stringify(shown)?.length ?? Number.POSITIVE_INFINITY)
      return size > RESULT_BINARY_BYTES ? [] : [[mime, shown]]
    }),
  )
}

/** @param {Uint8Array} bytes */
function imageOf(bytes) {
  const isWebp =
    Buffer.from(bytes.subarray(0, 4)).toString('latin1') === 'RIFF' &&
    Buffer.from(bytes.subarray(8, 12)).toString('latin1') === 'WEBP'
  const mime = isWebp
    ? 'image/webp'
    : IMAGES.find(([, magic]) => magic.every((byte, index) => bytes[index] === byte))?.[0]
  return mime === undefined ? {} : boundForms({ [mime]: bytes })
}

/** An element of a document, as jsdom and chart libraries make them. @param {any} element */
function elementOf({ tagName, outerHTML }) {
  const isSvg = String(tagName).toLowerCase() === 'svg'
  return { [isSvg ? 'image/svg+xml' : 'text/html']: outerHTML }
}

/**
 * A copy of plain objects and arrays. Undefined for anything that JSON cannot hold as it is.
 * @param {unknown} value
 */
function jsonOf(value) {
  const budget = { values: RESULT_JSON_VALUES }
  if (!isPlain(value, RESULT_JSON_DEPTH, budget)) return undefined
  const text = JSON.stringify(value)
  return text.length > RESULT_JSON_BYTES ? undefined : JSON.parse(text)
}

/**
 * @param {unknown} value
 * @param {number} depth
 * @param {{ values: number }} budget
 * @returns {boolean}
 */
function isPlain(value, depth, budget) {
  budget.values -= 1
  if (budget.values < 0 || depth < 0) return false
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object' || types.isProxy(value)) return false
  const prototype = Object.getPrototypeOf(value)
  if (Array.isArray(value)) return value.every((one) => isPlain(one, depth - 1, budget))
  if (prototype !== Object.prototype && prototype !== null) return false
  return Object.values(Object.getOwnPropertyDescriptors(value)).every(
    (property) => 'value' in property && isPlain(property.value, depth - 1, budget),
  )
}
