import { DormouseError } from './error.ts'

/** The error for a wrong argument: it names the argument and what was given. */
export function invalidArgument(name: string, problem: string, value: unknown, hint?: string): DormouseError {
  return new DormouseError('invalid_argument', `${name}: ${problem} (saw ${describe(value)})`, { hint })
}

/** A value as one segment of a path. An empty one, or `..`, would lead to another address. */
export function pathPart(name: string, value: string | number): string {
  if (typeof value === 'number' ? !Number.isFinite(value) : typeof value !== 'string')
    throw invalidArgument(name, 'must be text', value)
  if (value === '') throw invalidArgument(name, 'must not be empty', value)
  const text = encodeURIComponent(value)
  return text === '.' || text === '..' ? text.replaceAll('.', '%2E') : text
}

/** A time in milliseconds; 0 means no limit. */
export function checkTimeout(name: string, value: unknown): void {
  if (value === undefined) return
  if (typeof value !== 'number' || !(value >= 0) || !Number.isFinite(value))
    throw invalidArgument(name, 'must be a number of milliseconds from 0', value)
}

export function checkCount(name: string, value: unknown): void {
  if (!Number.isInteger(value) || (value as number) < 1)
    throw invalidArgument(name, 'must be a whole number from 1', value)
}

/** JSON text. JSON has no NaN and no Infinity: it would turn them into null. */
export function toJson(value: unknown): string {
  return JSON.stringify(value, (name, inner: unknown) => {
    if (typeof inner === 'number' && !Number.isFinite(inner))
      throw invalidArgument(name, 'must be a finite number', inner)
    if (typeof inner === 'bigint') throw invalidArgument(name, 'must be a number, not a bigint', inner)
    return inner
  })
}

const SHOWN_MAX_CHARACTERS = 80

/** Short, and without the content of objects, which may be secret. */
function describe(value: unknown): string {
  if (value === null || value === undefined || typeof value === 'number' || typeof value === 'boolean')
    return String(value)
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'string')
    return JSON.stringify(
      value.length > SHOWN_MAX_CHARACTERS ? `${value.slice(0, SHOWN_MAX_CHARACTERS)}…` : value,
    )
  if (typeof value !== 'object') return `a ${typeof value}`
  if (Array.isArray(value)) return 'an array'
  const { name = 'Object' } = (value.constructor ?? {}) as { name?: string }
  return name === 'Object' ? 'an object' : `an object of class ${name}`
}
