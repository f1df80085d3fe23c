// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.
import type { NetworkBody } from './network.ts'

export type CreateJobBody = {
  code?: string
  command?: string
  language?: 'bash' | 'javascript' | 'python' | 'r' | 'typescript'
  context?: string
  variable?: string | undefined
  inputs: unknown[]
  template?: string
  snapshot?: string
  sandbox?: string
  isolation?: 'microvm' | 'process'
  sandboxPer?: 'task' | 'worker' | undefined
  concurrency?: number | undefined
  retry?: { retries?: number | undefined; backoffMs?: number | undefined } | undefined
  timeoutMs?: number | undefined
  priority?: number | undefined
  name?: string
  metadata?: Record<string, string> | undefined
  env?: Record<string, string> | undefined
  limits?:
    | { memoryBytes?: number; cpus?: number; pids?: number; diskBytes?: number; files?: number }
    | undefined
  volumes?: { volume: string; path: string; readOnly?: boolean | undefined }[] | undefined
  network?: NetworkBody
  secrets?: string[] | undefined
  idempotencyKey?: string
}

export type JobAnswer = {
  id: string
  name?: string | undefined
  state: 'cancelled' | 'cancelling' | 'finished' | 'queued' | 'running'
  tasks: { queued: number; running: number; succeeded: number; failed: number; cancelled: number }
  total: number
  origin: { template?: string | undefined; snapshotId?: string | undefined; sandboxId?: string | undefined }
  isolation?: 'microvm' | 'process' | undefined
  sandboxPer: 'task' | 'worker'
  concurrency: number
  priority: number
  timeoutMs: number
  retry: { retries: number; backoffMs: number }
  metadata: Readonly<Record<string, string>>
  createdAt: string
  startedAt?: string | undefined
  finishedAt?: string | undefined
  resultBytes: number
  lastSeq: number
}

export type JobEventAnswer =
  | { seq: number; type: 'task'; task: TaskAnswer }
  | { seq: number; type: 'end'; job: JobAnswer }

export type JobPageAnswer = { items: readonly JobAnswer[]; nextCursor?: string | undefined }

export type TaskAnswer = {
  index: number
  state: 'cancelled' | 'failed' | 'queued' | 'running' | 'succeeded'
  attempts: number
  reason?: 'cancelled' | 'failed' | 'lost' | 'out_of_memory' | 'refused' | 'timed_out' | undefined
  message?: string | undefined
  startedAt?: string | undefined
  finishedAt?: string | undefined
  sandboxId?: string | undefined
  result?:
    | {
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
        text?: string | undefined
        mainResult?: number | undefined
      }
    | undefined
}

export type TaskPageAnswer = { items: readonly TaskAnswer[]; nextAfter?: number | undefined }
