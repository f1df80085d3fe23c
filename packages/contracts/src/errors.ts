/**
 * Every failure that a caller can see. `status` is the HTTP status, `retry` says whether the same call may succeed
 * later, and `hint` says what to do next unless the code that throws gives a better one.
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
  permission_denied: {
    status: 403,
    retry: false,
    hint: 'Use a user inside the sandbox that has the permission.',
  },
  not_found: { status: 404, retry: false, hint: 'Check the id or the path.' },
  template_not_found: {
    status: 404,
    retry: false,
    hint: 'List the templates with `dormouse template ls`.',
  },
  method_not_allowed: { status: 405, retry: false, hint: 'Use one of the methods in the `Allow` header.' },
  not_acceptable: {
    status: 406,
    retry: false,
    hint: 'Send `Accept` with one of the media types in the message, or leave it out.',
  },
  request_timeout: { status: 408, retry: true, hint: 'Send the whole request without a pause.' },
  already_exists: { status: 409, retry: false, hint: 'Choose another name, or ask to overwrite.' },
  name_taken: {
    status: 409,
    retry: false,
    hint: 'Choose another name, or create with `getOrCreate: true` to get the existing one.',
  },
  in_use: { status: 409, retry: true, hint: 'First delete or change what uses it; the message names it.' },
  idempotency_mismatch: {
    status: 409,
    retry: false,
    hint: 'Use a new `idempotencyKey` for a new request. A key can only be reused to repeat the same request.',
  },
  conflict: {
    status: 409,
    retry: false,
    hint: 'The current state does not allow this. Read the state again.',
  },
  not_a_file: { status: 409, retry: false, hint: 'The path is not a regular file.' },
  not_a_directory: { status: 409, retry: false, hint: 'The path is not a directory.' },
  directory_not_empty: { status: 409, retry: false, hint: 'Remove it recursively.' },
  data_dir_locked: {
    status: 409,
    retry: false,
    hint: 'Stop the other server or use another --data directory.',
  },
  language_missing: {
    status: 409,
    retry: false,
    hint: 'Use one of the languages that the message lists, or a template that has this one: `node` and `code` have JavaScript and TypeScript; for R, build one with the package `r-base-core`.',
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
    hint: 'The range begins beyond the end of the file. `Content-Range` has its length.',
  },
  headers_too_large: { status: 431, retry: false, hint: 'Send shorter headers and a shorter URL.' },
  limit_reached: { status: 429, retry: true, hint: 'End or delete something first, or raise the limit.' },
  memory_limit: {
    status: 409,
    retry: false,
    hint: 'Raise the limit: `dormouse update SANDBOX --memory SIZE`, or `limits.memoryBytes` of an update by HTTP or an SDK. Then the sandbox wakes and its run continues.',
  },
  rate_limited: { status: 429, retry: true, hint: 'Wait for the time in `Retry-After`.' },
  cancelled: { status: 499, retry: true, hint: 'The caller cancelled the request.' },
  snapshot_refused: {
    status: 409,
    retry: true,
    hint: 'Something in the sandbox cannot be saved. End or close it, then try again. The sandbox keeps running.',
  },
  snapshot_unusable: {
    status: 409,
    retry: false,
    hint: 'This snapshot cannot be restored here; the message says why. The files of the sandbox are not affected.',
  },
  restore_failed: {
    status: 503,
    retry: true,
    hint: 'The snapshot is unchanged. Try again, and check the server log.',
  },
  internal: { status: 500, retry: false, hint: 'This is a bug in Dormouse. The server log has the details.' },
  agent_unreachable: {
    status: 502,
    retry: true,
    hint: 'The agent inside the sandbox does not answer. It may have just ended. Try again.',
  },
  protocol_mismatch: {
    status: 502,
    retry: false,
    hint: 'Host and guest have different versions. Rebuild the template.',
  },
  run_unfinished: {
    status: 504,
    retry: false,
    hint: 'The run continues. Wake the sandbox if it sleeps, then read the run with the `runId` in `details`.',
  },
  service_unavailable: {
    status: 503,
    retry: true,
    hint: 'No replica of the service can answer now. `dormouse service logs NAME` says why; try again in a moment.',
  },
  port_closed: {
    status: 502,
    retry: true,
    hint: 'Start a program that listens on 127.0.0.1 or on all addresses, and wait for it with `POST …/ports/{port}/wait`.',
  },
  burrow_ended: {
    status: 503,
    retry: true,
    hint: 'The processes of this sandbox have ended. Create a new sandbox.',
  },
  burrow_start_failed: { status: 503, retry: true, hint: 'Run `dormouse doctor` on the host.' },
  host_unsupported: {
    status: 503,
    retry: false,
    hint: 'Run `dormouse doctor` to see what is missing on this host.',
  },
  isolation_unavailable: {
    status: 503,
    retry: false,
    hint: 'Run `./dormouse up --isolation microvm` on the host once: it installs QEMU and the kernel of the guests.',
  },
  isolation_unsupported: {
    status: 409,
    retry: false,
    hint: 'Sandboxes with isolation `microvm` cannot do this. Create one with isolation `process`.',
  },
  isolation_forbidden: {
    status: 403,
    retry: false,
    hint: 'This server has virtual machines only. Create the sandbox with isolation `microvm`.',
  },
  setup_failed: { status: 503, retry: true, hint: 'Read the output above, then run `dormouse up` again.' },
  server_unreachable: {
    status: 503,
    retry: true,
    hint: 'The server may be starting or stopping. Try again in a moment, and check its output.',
  },
  insecure_bind: {
    status: 503,
    retry: false,
    hint: 'Set --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy with TLS, or allow it with --insecure-bind.',
  },
  database_corrupt: {
    status: 503,
    retry: false,
    hint: 'The server wrote nothing to it. Copy the file and its -wal, check the disk, then restore a backup or try `sqlite3 FILE .recover`.',
  },
  database_newer: {
    status: 503,
    retry: false,
    hint: 'A newer Dormouse wrote this database. Start that version, or use another --data directory. This server wrote nothing to it.',
  },
  overloaded: {
    status: 503,
    retry: true,
    hint: 'The host is busy. Nothing has changed. Try again after `Retry-After`.',
  },
  cluster_unavailable: {
    status: 503,
    retry: true,
    hint: 'Start the NATS servers of the cluster, or check the address, the certificate and the credentials.',
  },
  host_unavailable: {
    status: 503,
    retry: true,
    hint: 'The sandbox is on a host that does not answer. Try again: when the lease of that host has ended, another host takes over what is replicated.',
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
