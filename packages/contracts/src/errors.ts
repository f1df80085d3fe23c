/**
 * Every failure a caller can meet. `status` is the HTTP answer, `retry` says whether the same call may work later,
 * `hint` is what to do next when the place that throws knows nothing better.
 */
export const ERRORS = {
  invalid_argument: {
    status: 400,
    retry: false,
    hint: 'Correct the named field and send the request again.',
  },
  unauthorized: {
    status: 401,
    retry: false,
    hint: 'Send `Authorization: Bearer <key>` with a key from `dormouse key create`.',
  },
  scope_missing: { status: 403, retry: false, hint: 'Use a key that has the named scope.' },
  permission_denied: { status: 403, retry: false, hint: 'Use a user inside the sandbox that may do this.' },
  not_found: { status: 404, retry: false, hint: 'Check the id or the path.' },
  template_not_found: { status: 404, retry: false, hint: 'List what exists with `dormouse template list`.' },
  method_not_allowed: { status: 405, retry: false, hint: 'Use one of the methods in the `Allow` header.' },
  not_acceptable: {
    status: 406,
    retry: false,
    hint: 'Ask with `Accept` for one of the media types that the message names, or leave it out.',
  },
  request_timeout: { status: 408, retry: true, hint: 'Send the whole request without a pause.' },
  already_exists: { status: 409, retry: false, hint: 'Choose another name, or ask for overwriting.' },
  name_taken: {
    status: 409,
    retry: false,
    hint: 'Choose another name, or create with `getOrCreate: true` to have the one that exists.',
  },
  in_use: { status: 409, retry: true, hint: 'Delete or change what uses it first; the message names it.' },
  idempotency_mismatch: {
    status: 409,
    retry: false,
    hint: 'A new request needs a new `idempotencyKey`. The same key is only for sending the same request again.',
  },
  conflict: { status: 409, retry: false, hint: 'The state does not allow this now; read it again first.' },
  not_a_file: { status: 409, retry: false, hint: 'The path is not a regular file.' },
  not_a_directory: { status: 409, retry: false, hint: 'The path is not a directory.' },
  directory_not_empty: { status: 409, retry: false, hint: 'Remove it recursively.' },
  data_dir_locked: {
    status: 409,
    retry: false,
    hint: 'Stop the other server or use another --data directory.',
  },
  too_large: { status: 413, retry: false, hint: 'Send less at once, or stream it as a file.' },
  unsupported_media_type: {
    status: 415,
    retry: false,
    hint: 'Send the body with `Content-Type: application/json`.',
  },
  range_not_satisfiable: {
    status: 416,
    retry: false,
    hint: 'The file is shorter than that; `Content-Range` says how long it is.',
  },
  headers_too_large: { status: 431, retry: false, hint: 'Send less in the headers and the address.' },
  limit_reached: { status: 429, retry: true, hint: 'End something first, or raise the limit.' },
  rate_limited: { status: 429, retry: true, hint: 'Wait as long as `Retry-After` says.' },
  cancelled: { status: 499, retry: true, hint: 'The caller gave up before the end.' },
  snapshot_refused: {
    status: 409,
    retry: true,
    hint: 'Something in the sandbox cannot be saved; end it or close it, then try again. The sandbox runs on.',
  },
  snapshot_unusable: {
    status: 409,
    retry: false,
    hint: 'This snapshot cannot be restored here. The message says why; the files of the sandbox are not affected.',
  },
  restore_failed: {
    status: 503,
    retry: true,
    hint: 'The snapshot is untouched. Try again, and see the server log.',
  },
  internal: { status: 500, retry: false, hint: 'This is a bug in Dormouse. The server log has the details.' },
  agent_unreachable: {
    status: 502,
    retry: true,
    hint: 'The burrow does not answer. It may just have ended.',
  },
  protocol_mismatch: {
    status: 502,
    retry: false,
    hint: 'Host and guest are of different versions. Rebuild the template.',
  },
  run_unfinished: {
    status: 504,
    retry: false,
    hint: 'The run has neither ended nor been stopped. Wake the sandbox if it sleeps, then read the run with the `runId` in `details`.',
  },
  port_closed: {
    status: 502,
    retry: true,
    hint: 'Start what is to listen there, on 127.0.0.1 or on every address, and wait for it with `POST …/ports/{port}/wait`.',
  },
  burrow_ended: { status: 503, retry: true, hint: 'The processes of this sandbox are gone. Create it anew.' },
  burrow_start_failed: { status: 503, retry: true, hint: 'Run `dormouse doctor` on the host.' },
  host_unsupported: { status: 503, retry: false, hint: 'Run `dormouse doctor` to see what this host lacks.' },
  setup_failed: { status: 503, retry: true, hint: 'Read the output above, then run `dormouse up` again.' },
  server_unreachable: {
    status: 503,
    retry: true,
    hint: 'The server may be starting or ending. Try again in a moment, and look at its output.',
  },
  insecure_bind: {
    status: 503,
    retry: false,
    hint: 'Give --tls-cert and --tls-key, or stay on 127.0.0.1 behind a proxy that has TLS, or accept it with --insecure-bind.',
  },
  database_corrupt: {
    status: 503,
    retry: false,
    hint: 'Nothing was written to it. Copy the file and its -wal, check the disk, then restore a backup or try `sqlite3 FILE .recover`.',
  },
  database_newer: {
    status: 503,
    retry: false,
    hint: 'It was written by a newer Dormouse. Start that version, or use another --data directory. Nothing was written to it.',
  },
  overloaded: {
    status: 503,
    retry: true,
    hint: 'The host is busy. Nothing was changed; try again after `Retry-After`.',
  },
  no_space: { status: 507, retry: true, hint: 'Free some disk space.' },
} as const satisfies Record<string, { status: number; retry: boolean; hint: string }>

export type ErrorCode = keyof typeof ERRORS

export interface ErrorDetails {
  readonly hint?: string
  readonly details?: Readonly<Record<string, unknown>>
  readonly cause?: unknown
}

export class DormouseError extends Error {
  override readonly name = 'DormouseError'
  readonly code: ErrorCode
  readonly hint: string
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, message: string, { hint, details, cause }: ErrorDetails = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.hint = hint ?? ERRORS[code].hint
    this.details = details ?? {}
  }

  get status(): number {
    return ERRORS[this.code].status
  }

  get retry(): boolean {
    return ERRORS[this.code].retry
  }
}

export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERRORS, code)
}

export function hasErrorCode(error: unknown, code: ErrorCode): error is DormouseError {
  return error instanceof DormouseError && error.code === code
}
