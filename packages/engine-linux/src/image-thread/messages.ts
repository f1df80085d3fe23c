import { DormouseError, type ErrorCode } from '@dormouse/contracts'

export type ToThread =
  | { readonly type: 'run'; readonly op: string; readonly input: unknown }
  /** The thread may free what it read of a dump. Not answered. */
  | { readonly type: 'forget' }
  | PagesAnswer

export type FromThread =
  | { readonly type: 'done'; readonly value: unknown }
  | { readonly type: 'failed'; readonly error: ThreadError }
  /** Records for `PageMover.ask`. Answered in order. */
  | { readonly type: 'pages'; readonly records: Uint8Array }

export type PagesAnswer =
  | { readonly type: 'pages-done'; readonly lines: string[] }
  | { readonly type: 'pages-failed'; readonly error: ThreadError }

/** An error that can be sent to another thread. */
export interface ThreadError {
  readonly message: string
  /** The code of a DormouseError, or an errno name. */
  readonly code: string | undefined
  readonly ours?: { readonly hint: string; readonly details: Readonly<Record<string, unknown>> }
}

export function encodeError(error: unknown): ThreadError {
  if (error instanceof DormouseError) {
    const { message, code, hint, details } = error
    return { message, code, ours: { hint, details } }
  }
  const { message, code } = error as NodeJS.ErrnoException
  return { message: String(message), code: typeof code === 'string' ? code : undefined }
}

export function decodeError({ message, code, ours }: ThreadError): Error {
  if (ours !== undefined) return new DormouseError(code as ErrorCode, message, ours)
  return Object.assign(new Error(message), code === undefined ? {} : { code })
}
