import { ApiError } from './http/api-error.ts'

const PREFIX = 'e2b_'

/**
 * A key of Dormouse in the form that E2B's clients accept, `e2b_` and hexadecimal digits. Both forms
 * are the same key: each can be computed from the other.
 */
export function toE2bKey(key: string): string {
  return `${PREFIX}${Buffer.from(key).toString('hex')}`
}

/** The key in either form. Throws `ApiError` 401 when there is none. */
export function keyIn(given: string | undefined): string {
  if (given === undefined || given === '')
    throw new ApiError(401, 'Unauthorized, please check your credentials')
  return given.startsWith(PREFIX) ? Buffer.from(given.slice(PREFIX.length), 'hex').toString() : given
}
