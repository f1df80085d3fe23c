import { DormouseError } from '@dormouse/contracts'

/** Primary codes of sqlite3.h that the server handles. They are the low byte of an extended code. */
const CONSTRAINT = 19
const CORRUPT = 11
const FULL = 13
const NOT_A_DATABASE = 26
const UNIQUE = 2067
const PRIMARY_KEY = 1555

export function isUniqueViolation(error: unknown): boolean {
  const code = extendedCode(error)
  return code === UNIQUE || code === PRIMARY_KEY
}

export function isConstraintViolation(error: unknown): boolean {
  return primaryCode(error) === CONSTRAINT
}

function isCorruption(error: unknown): boolean {
  const code = primaryCode(error)
  return code === CORRUPT || code === NOT_A_DATABASE
}

/** Gives errors that callers can act on a code of the registry. Returns others unchanged. */
export function toCodedError(error: unknown, name: string): unknown {
  if (isCorruption(error)) return corruptDatabase(name, (error as Error).message, error)
  if (primaryCode(error) === FULL) {
    return new DormouseError('no_space', 'The disk that holds the server’s records is full', { cause: error })
  }
  return error
}

export function corruptDatabase(name: string, found: string, cause?: unknown): DormouseError {
  return new DormouseError('database_corrupt', `The database ${name} is damaged: ${found}`, { cause })
}

function primaryCode(error: unknown): number | undefined {
  const code = extendedCode(error)
  return code === undefined ? undefined : code & 0xff
}

function extendedCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error)) return undefined
  return typeof error.errcode === 'number' ? error.errcode : undefined
}
