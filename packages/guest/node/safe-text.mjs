import { types } from 'node:util'

const TEXT_CHARS = 120
const ELEMENTS = 12
const DEPTH = 2
const TYPE_CHARS = 100

/**
 * Type, size and preview of a value. Reads only what the engine itself knows: getters, proxies, `toString` and symbols
 * of user code are not called.
 * @param {unknown} value
 */
export function describe(value) {
  const shape = shapeOf(value)
  const bytes = bytesOf(value)
  const opens = opensAs(value)
  return {
    type: typeOf(value).slice(0, TYPE_CHARS),
    preview: textOf(value),
    ...(shape !== undefined && { shape }),
    ...(bytes !== undefined && { bytes }),
    ...(opens !== undefined && { opens }),
  }
}

/** @param {unknown} value */
function opensAs(value) {
  if (typeof value === 'string') return value.length > TEXT_CHARS || value.includes('\n') ? 'text' : undefined
  const [length = 0] = shapeOf(value) ?? []
  return length > 0 && typeof value === 'object' ? 'table' : undefined
}

/**
 * @param {unknown} value
 * @returns {string}
 */
export function typeOf(value) {
  if (value === null) return 'null'
  if (typeof value === 'function') return isClass(value) ? 'class' : 'function'
  if (typeof value !== 'object') return typeof value
  if (types.isProxy(value)) return 'Proxy'
  const prototype = Object.getPrototypeOf(value)
  if (prototype === null || types.isProxy(prototype)) return 'Object'
  const maker = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value
  return typeof maker === 'function' && !types.isProxy(maker) ? nameOf(maker) || 'Object' : 'Object'
}

/** @param {unknown} value */
function shapeOf(value) {
  if (typeof value === 'string') return [value.length]
  if (typeof value !== 'object' || value === null || types.isProxy(value)) return undefined
  if (Array.isArray(value)) return [value.length]
  if (types.isTypedArray(value)) return [lengthOf(value)]
  if (types.isMap(value)) return [sizeOfMap(value)]
  if (types.isSet(value)) return [sizeOfSet(value)]
  return isPlain(value) ? [Object.keys(value).length] : undefined
}

/** @param {unknown} value */
function bytesOf(value) {
  if (typeof value === 'string') return value.length * 2
  if (types.isTypedArray(value)) return byteLengthOf(value)
  if (types.isArrayBuffer(value)) return bufferBytesOf(value)
  return undefined
}

// The accessors of the engine: an object may have properties of its own with these names.
const TYPED = Object.getPrototypeOf(Uint8Array.prototype)
const lengthOf = getter(TYPED, 'length')
const byteLengthOf = getter(TYPED, 'byteLength')
const bufferBytesOf = getter(ArrayBuffer.prototype, 'byteLength')
const sizeOfMap = getter(Map.prototype, 'size')
const sizeOfSet = getter(Set.prototype, 'size')
const { toISOString } = Date.prototype
const { call } = Function.prototype
const mapEntries = call.bind(Map.prototype.entries)
const setValues = call.bind(Set.prototype.values)

/**
 * @param {object} prototype
 * @param {string} name
 * @returns {(value: unknown) => number}
 */
function getter(prototype, name) {
  const get = Object.getOwnPropertyDescriptor(prototype, name)?.get
  return (value) => Reflect.apply(/** @type {Function} */ (get), value, [])
}

/**
 * The pairs of an object, an array, a map or a set, at most `max`. Getters show as such.
 * @param {unknown} value
 * @param {number} max
 * @returns {[unknown, unknown][]}
 */
export function entriesOf(value, max) {
  if (typeof value !== 'object' || value === null || types.isProxy(value)) return []
  if (types.isMap(value)) return first(mapEntries(value), max)
  if (types.isSet(value))
    return first(setValues(value), max).map((one, index) => /** @type {[unknown, unknown]} */ ([index, one]))
  if (Array.isArray(value) || types.isTypedArray(value)) {
    const [length = 0] = shapeOf(value) ?? []
    return Array.from({ length: Math.min(length, max) }, (_, index) => [
      index,
      ownValue(value, String(index)),
    ])
  }
  return Object.keys(value)
    .slice(0, max)
    .map((key) => [key, ownValue(value, key)])
}

/**
 * @template Item
 * @param {Iterator<Item>} iterator
 * @param {number} max
 */
function first(iterator, max) {
  const items = []
  for (let next = iterator.next(); !next.done && items.length < max; next = iterator.next())
    items.push(next.value)
  return items
}

/**
 * @param {object} value
 * @param {string} key
 */
export function ownValue(value, key) {
  const property = Object.getOwnPropertyDescriptor(value, key)
  return property === undefined || 'value' in property ? property?.value : GETTER
}

const GETTER = Symbol('getter')

/** @param {object} value */
export function isPlain(value) {
  if (types.isProxy(value)) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}

/**
 * @param {unknown} value
 * @param {number} [chars]
 * @param {number} [depth]
 * @returns {string}
 */
export function textOf(value, chars = TEXT_CHARS, depth = DEPTH) {
  const text = fullText(value, chars, depth)
  return text.length <= chars ? text : `${text.slice(0, chars - 1)}…`
}

/**
 * @param {unknown} value
 * @param {number} chars
 * @param {number} depth
 * @returns {string}
 */
function fullText(value, chars, depth) {
  if (value === GETTER) return '[getter]'
  if (typeof value === 'string') return JSON.stringify(value.slice(0, chars))
  if (typeof value === 'bigint') return `${String(value).slice(0, chars)}n`
  if (typeof value === 'function') return `${typeOf(value)} ${nameOf(value)}`
  if (typeof value !== 'object' || value === null) return String(value)
  if (types.isProxy(value)) return '[Proxy]'
  if (types.isDate(value)) return dateText(value)
  const isList = Array.isArray(value) || types.isTypedArray(value) || types.isSet(value)
  if (!isList && !types.isMap(value) && !isPlain(value)) return `<${typeOf(value)}>`
  const [opening, closing] = isList ? ['[', ']'] : ['{', '}']
  const [count = 0] = shapeOf(value) ?? []
  if (depth === 0) return count === 0 ? `${opening}${closing}` : `${opening}…${closing}`
  const items = entriesOf(value, ELEMENTS).map(([key, item]) => {
    const text = textOf(item, chars, depth - 1)
    return isList ? text : `${typeof key === 'string' ? key : textOf(key, chars, 0)}: ${text}`
  })
  return `${opening}${items.join(', ')}${count > ELEMENTS ? ', …' : ''}${closing}`
}

/** @param {Date} date */
function dateText(date) {
  try {
    return Reflect.apply(toISOString, date, [])
  } catch {
    return 'Invalid Date'
  }
}

/** @param {Function} made */
function nameOf(made) {
  if (types.isProxy(made)) return ''
  const name = Object.getOwnPropertyDescriptor(made, 'name')?.value
  return typeof name === 'string' ? name : ''
}

/** @param {Function} value */
function isClass(value) {
  return !types.isProxy(value) && Object.getOwnPropertyDescriptor(value, 'prototype')?.writable === false
}
