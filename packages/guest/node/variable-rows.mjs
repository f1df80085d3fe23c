import { types } from 'node:util'
import { CELL_CHARS, OPENED_TEXT_CHARS, ROWS_MAX } from './limits.mjs'
import { describe, entriesOf, isPlain, ownValue, textOf, typeOf } from './safe-text.mjs'
import { readVariable } from './variables.mjs'

/** @typedef {{ name: string, value: (row: number) => unknown }} Column */
/**
 * @typedef {{ offset: number, limit: number, columnOffset: number, columns: number }} Place
 * @typedef {Place & { sort: number | null, descending: boolean, filters: [number, string][] }} Window
 */

/** How many rows name the columns of a list of objects. */
const SAMPLED_ROWS = 100
const COLUMNS_MAX = 1_000

/**
 * A window of the rows of one variable, or its text. Executes no user code.
 * @param {import('./evaluator.mjs').Evaluator} evaluator
 * @param {Window & { name: string }} request
 * @returns {Promise<Record<string, unknown>>}
 */
export async function readRows(evaluator, request) {
  const found = await readVariable(evaluator, request.name)
  if (found === undefined)
    return { error: 'not_found', message: `there is no variable ${JSON.stringify(request.name)}` }
  const { value } = found
  const variable = { name: request.name, ...describe(value) }
  if (typeof value === 'string') return { variable, text: value.slice(0, OPENED_TEXT_CHARS) }
  const entries = entriesOf(value, ROWS_MAX)
  return entries.length === 0 ? { variable } : { variable, table: windowOf(entries, request) }
}

/**
 * @param {[unknown, unknown][]} entries
 * @param {Window} window
 */
function windowOf(entries, { offset, limit, columnOffset, columns: count, sort, descending, filters }) {
  const all = columnsOf(entries)
  const columns = all.slice(columnOffset, columnOffset + count)
  let rows = entries.map((_, index) => index)
  for (const [index, text] of filters) {
    const [column, matches] = [all[index], matcher(text)]
    if (column !== undefined) rows = rows.filter((row) => matches(column.value(row)))
  }
  const key = sort === null ? undefined : all[sort]
  if (key !== undefined) rows = sorted(rows, key, descending)
  return {
    columns: columns.map(({ name }) => ({ name: cell(name) ?? '', type: '' })),
    rows: rows.slice(offset, offset + limit).map((row) => ({
      label: cell(entries[row]?.[0]) ?? '',
      cells: columns.map(({ value }) => cell(value(row))),
    })),
    rowCount: entries.length,
    matchCount: rows.length,
    columnCount: all.length,
  }
}

/**
 * Objects have a column for each key; other values one for the value and one for its type.
 * @param {[unknown, unknown][]} entries
 * @returns {Column[]}
 */
function columnsOf(entries) {
  const at = (/** @type {number} */ row) => entries[row]?.[1]
  const sample = entries.slice(0, SAMPLED_ROWS).map(([, value]) => value)
  const isRecord = (/** @type {unknown} */ value) =>
    typeof value === 'object' && value !== null && !types.isProxy(value) && isPlain(value)
  if (!sample.every(isRecord))
    return [
      { name: 'value', value: at },
      { name: 'type', value: (row) => typeOf(at(row)) },
    ]
  const keys = new Set(sample.flatMap((value) => Object.keys(/** @type {object} */ (value))))
  return [...keys].slice(0, COLUMNS_MAX).map((name) => ({
    name,
    value: (row) => {
      const value = at(row)
      return isRecord(value) ? ownValue(/** @type {object} */ (value), name) : undefined
    },
  }))
}

/** @param {unknown} value */
function cell(value) {
  if (value === undefined || value === null) return null
  const text = typeof value === 'string' ? value : textOf(value, CELL_CHARS)
  return text.length > CELL_CHARS ? `${text.slice(0, CELL_CHARS - 1)}…` : text
}

/** @param {string} expression @returns {(value: unknown) => boolean} */
function matcher(expression) {
  const [, sign = '', rest = ''] = /^(>=|<=|!=|>|<|=)?(.*)$/s.exec(expression) ?? []
  const wanted = rest.trim()
  if (sign === '=' || sign === '!=') return (value) => ((cell(value) ?? '') === wanted) === (sign === '=')
  if (sign === '') return (value) => (cell(value) ?? '').toLowerCase().includes(expression.toLowerCase())
  const limit = Number.isNaN(Number(wanted)) ? wanted : Number(wanted)
  return (value) => {
    if (typeof value !== typeof limit) return false
    const one = /** @type {string | number} */ (value)
    if (sign === '>') return one > limit
    if (sign === '<') return one < limit
    return sign === '>=' ? one >= limit : one <= limit
  }
}

/**
 * Numbers before texts, what is missing last in both directions.
 * @param {number[]} rows
 * @param {Column} column
 * @param {boolean} descending
 */
function sorted(rows, column, descending) {
  const keyed = rows.map((row) => {
    const value = column.value(row)
    return { row, key: typeof value === 'number' ? value : cell(value) }
  })
  const isMissing = (/** @type {string | number | null} */ key) => key === null || Number.isNaN(key)
  const present = keyed.filter(({ key }) => !isMissing(key))
  present.sort((one, other) => compare(one.key ?? '', other.key ?? '') * (descending ? -1 : 1))
  return [...present, ...keyed.filter(({ key }) => isMissing(key))].map(({ row }) => row)
}

/** @param {string | number} one @param {string | number} other */
function compare(one, other) {
  if (typeof one !== typeof other) return typeof one === 'number' ? -1 : 1
  return one < other ? -1 : Number(one > other)
}
