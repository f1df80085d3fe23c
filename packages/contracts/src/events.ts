/** What a run or a process says, in order. `seq` rises by one from 0; `exit` is last. */
export type RunEvent =
  | { seq: number; type: 'start'; runId: string; context: string; contextRestarted?: string }
  | OutputEvent
  | { seq: number; type: 'result'; data: ResultData; main?: boolean }
  | { seq: number; type: 'error'; name: string; message: string; traceback: string }
  | TruncatedEvent
  | {
      seq: number
      type: 'exit'
      exitCode: number
      durationMs: number
      timedOut?: boolean
      interrupted?: boolean
      /** The kernel was replaced in the course of this run: its variables are gone. */
      contextRestarted?: boolean
      signal?: string
    }

export type ProcessEvent =
  | { seq: number; type: 'start'; pid: number }
  | OutputEvent
  | TruncatedEvent
  | { seq: number; type: 'exit'; exitCode: number; durationMs: number; timedOut?: boolean; signal?: string }

export interface OutputEvent {
  seq: number
  type: 'stdout' | 'stderr'
  data: string
  /** Written while no run was going on in the context. */
  between?: boolean
}

/** Stands for events that the journal no longer holds; `seq` is that of the last one. */
export interface TruncatedEvent {
  seq: number
  type: 'truncated'
  events: number
  bytes: number
}

/** Mime type to value: text as it is, binary as base64, JSON as JSON. */
export type ResultData = Record<string, unknown>

export interface RunError {
  name: string
  message: string
  traceback: string
}

/** A whole run, collected. */
export interface RunResult {
  runId: string
  stdout: string
  stderr: string
  exitCode: number
  results: ResultData[]
  error?: RunError
  durationMs: number
  timedOut?: boolean
  interrupted?: boolean
  /** Why this run began with a fresh kernel, or that it left one behind. */
  contextRestarted?: string
  /** Bytes left out of the fields above because there was more than the limit. */
  truncated?: { stdoutBytes: number; stderrBytes: number; resultBytes: number }
}
