// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type ErrorAnswer = {
  error: {
    code:
      | 'agent_unreachable'
      | 'already_exists'
      | 'burrow_ended'
      | 'burrow_start_failed'
      | 'cancelled'
      | 'cluster_unavailable'
      | 'conflict'
      | 'data_dir_locked'
      | 'database_corrupt'
      | 'database_newer'
      | 'directory_not_empty'
      | 'headers_too_large'
      | 'host_unavailable'
      | 'host_unsupported'
      | 'idempotency_mismatch'
      | 'in_use'
      | 'insecure_bind'
      | 'internal'
      | 'invalid_argument'
      | 'isolation_forbidden'
      | 'isolation_unavailable'
      | 'isolation_unsupported'
      | 'language_missing'
      | 'limit_reached'
      | 'memory_limit'
      | 'method_not_allowed'
      | 'name_taken'
      | 'no_space'
      | 'not_a_directory'
      | 'not_a_file'
      | 'not_acceptable'
      | 'not_found'
      | 'overloaded'
      | 'permission_denied'
      | 'port_closed'
      | 'protocol_mismatch'
      | 'range_not_satisfiable'
      | 'rate_limited'
      | 'request_timeout'
      | 'restore_failed'
      | 'run_unfinished'
      | 'scope_missing'
      | 'server_unreachable'
      | 'service_unavailable'
      | 'setup_failed'
      | 'snapshot_refused'
      | 'snapshot_unusable'
      | 'template_not_found'
      | 'too_large'
      | 'unauthorized'
      | 'unsupported_media_type'
    message: string
    hint: string
    requestId: string
    docs: string
    details?: Record<string, unknown> | undefined
  }
}
