import type { IncomingHttpHeaders } from 'node:http'
import { Code, ConnectError, createContextKey, type HandlerContext } from '@connectrpc/connect'
import { DormouseError } from '@dormouse/contracts'
import type { BackendSandbox } from '../backend.ts'

/** The sandbox that a request to envd is for. */
export const sandboxKey = createContextKey<BackendSandbox | undefined>(undefined)

export function sandboxOf({ values }: HandlerContext): BackendSandbox {
  const sandbox = values.get(sandboxKey)
  if (sandbox === undefined) throw new ConnectError('the sandbox was not found', Code.Unavailable)
  return sandbox
}

/** The user name of Basic authentication. Undefined: the default user of the sandbox. */
function userIn(authorization: string | null | undefined): string | undefined {
  const [, encoded] = /^Basic +(\S+)$/i.exec(authorization ?? '') ?? []
  if (encoded === undefined) return undefined
  const name = Buffer.from(encoded, 'base64').toString().split(':')[0]
  return name === '' ? undefined : name
}

export function userOf({ requestHeader }: HandlerContext): { user?: string } {
  const user = userIn(requestHeader.get('authorization'))
  return user === undefined ? {} : { user }
}

const DEFAULT_KEEPALIVE_MS = 90_000

/** How often a stream without events sends one. */
export function keepaliveMs({ requestHeader }: HandlerContext): number {
  const seconds = Number(requestHeader.get('keepalive-ping-interval'))
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : DEFAULT_KEEPALIVE_MS
}

export function headerOf(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value[0] : value
}

const CODES: Record<string, Code> = {
  invalid_argument: Code.InvalidArgument,
  not_found: Code.NotFound,
  already_exists: Code.AlreadyExists,
  not_a_directory: Code.InvalidArgument,
  not_a_file: Code.InvalidArgument,
  permission_denied: Code.PermissionDenied,
  conflict: Code.FailedPrecondition,
  directory_not_empty: Code.FailedPrecondition,
  limit_reached: Code.ResourceExhausted,
  no_space: Code.ResourceExhausted,
  cancelled: Code.Canceled,
  overloaded: Code.Unavailable,
}

/** Errors of our services in the codes of Connect. */
function toConnectError(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error
  if (error instanceof DormouseError)
    return new ConnectError(error.message, CODES[error.code] ?? Code.Internal)
  return new ConnectError('internal error', Code.Internal)
}

/**
 * The error of a stream that broke. Clients look whether the sandbox still runs when a connection was cut, which they
 * recognize by this word.
 */
export function endedStream(sandbox: BackendSandbox, error: unknown): ConnectError {
  return sandbox.view().state === 'deleting'
    ? new ConnectError('terminated', Code.Unknown)
    : toConnectError(error)
}

/** Runs a method of a service with its errors in the codes of Connect. */
export async function translated<Value>(work: () => Promise<Value>): Promise<Value> {
  try {
    return await work()
  } catch (error) {
    throw toConnectError(error)
  }
}
