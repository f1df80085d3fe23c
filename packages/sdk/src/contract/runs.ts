// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.
import type { NetworkBody } from './network.ts'

export type InterruptAnswer = { outcome: 'cancelled' | 'finished' | 'interrupting' }

export type RunAnswer = {
  runId: string
  sandboxId: string
  context: string
  language: 'bash' | 'javascript' | 'python' | 'r' | 'typescript'
  state: 'finished' | 'lost' | 'queued' | 'running'
  startedAt: string
  finishedAt?: string | undefined
  exitCode?: number | undefined
  code?: string | undefined
  isCodeCut?: boolean | undefined
}

export type RunBody = {
  code: string
  timeoutMs?: number
  language?: 'bash' | 'javascript' | 'python' | 'r' | 'typescript'
  context?: string
  idempotencyKey?: string
  input?: boolean
  onDisconnect?: 'continue' | 'interrupt' | undefined
}

export type RunEventAnswer =
  | {
      seq: number
      type: 'start'
      runId: string
      context: string
      language?: 'bash' | 'javascript' | 'python' | 'r' | 'typescript' | undefined
      contextRestarted?: string | undefined
    }
  | { seq: number; type: 'stderr' | 'stdout'; data: string; between?: boolean | undefined }
  | { seq: number; type: 'result'; data: Record<string, unknown>; main?: boolean | undefined }
  | { seq: number; type: 'input'; prompt: string; hidden?: boolean | undefined }
  | { name: string; message: string; traceback: string; seq: number; type: 'error' }
  | { seq: number; type: 'truncated'; events: number; bytes: number }
  | {
      seq: number
      type: 'exit'
      exitCode: number
      durationMs: number
      timedOut?: boolean | undefined
      interrupted?: boolean | undefined
      contextRestarted?: boolean | undefined
      signal?: string | undefined
      outOfMemory?: string | undefined
    }
  | {
      type: 'failed'
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

export type RunOnceBody = {
  code: string
  timeoutMs?: number
  language?: 'bash' | 'javascript' | 'python' | 'r' | 'typescript' | undefined
  template?: string | undefined
  isolation?: 'microvm' | 'process'
  env?: Record<string, string> | undefined
  limits?:
    | { memoryBytes?: number; cpus?: number; pids?: number; diskBytes?: number; files?: number }
    | undefined
  volumes?: { volume: string; path: string; readOnly?: boolean | undefined }[] | undefined
  network?: NetworkBody
  secrets?: string[] | undefined
}

export type RunPageAnswer = { items: readonly RunAnswer[]; nextCursor?: string | undefined }

export type RunResultAnswer = {
  runId: string
  stdout: string
  stderr: string
  exitCode: number
  results: Record<string, unknown>[]
  error?: { name: string; message: string; traceback: string } | undefined
  durationMs: number
  timedOut?: boolean | undefined
  interrupted?: boolean | undefined
  contextRestarted?: string | undefined
  outOfMemory?: string | undefined
  truncated?: { stdoutBytes: number; stderrBytes: number; resultBytes: number } | undefined
}

export type RunWithResultAnswer = {
  runId: string
  sandboxId: string
  context: string
  language: 'bash' | 'javascript' | 'python' | 'r' | 'typescript'
  state: 'finished' | 'lost' | 'queued' | 'running'
  startedAt: string
  finishedAt?: string | undefined
  exitCode?: number | undefined
  code?: string | undefined
  isCodeCut?: boolean | undefined
  result?: RunResultAnswer | undefined
}
