import type { Language } from './languages.ts'

/** Events of a run or a process, in order. `seq` counts from 0; `exit` is last. */
export type RunEvent =
  | {
      seq: number
      type: 'start'
      runId: string
      context: string
      /** What the code is written in. Agents of older versions do not say. */
      language?: Language
      contextRestarted?: string
    }
  | OutputEvent
  | { seq: number; type: 'result'; data: ResultData; main?: boolean }
  | InputEvent
  | { seq: number; type: 'error'; name: string; message: string; traceback: string }
  | TruncatedEvent
  | {
      seq: number
      type: 'exit'
      exitCode: number
      durationMs: number
      timedOut?: boolean
      interrupted?: boolean
      /** The kernel was replaced during this run: its variables are lost. */
      contextRestarted?: boolean
      signal?: string
      /** Linux killed a process of it because the sandbox reached its memory limit: what happened, in words. */
      outOfMemory?: string
    }

export type ProcessEvent =
  | { seq: number; type: 'start'; processId: string; pid: number }
  | OutputEvent
  | TruncatedEvent
  | {
      seq: number
      type: 'exit'
      exitCode: number
      durationMs: number
      timedOut?: boolean
      signal?: string
      /** As of a run. */
      outOfMemory?: string
    }

export interface OutputEvent {
  seq: number
  type: 'stdout' | 'stderr'
  data: string
  /** Written while the context had no active run. */
  between?: boolean
}

/** The code waits for an answer to `input()`. `hidden`: what is typed must not be shown, as for a password. */
export interface InputEvent {
  seq: number
  type: 'input'
  prompt: string
  hidden?: boolean
}

/** Stands for dropped events. `seq` is that of the last one. */
export interface TruncatedEvent {
  seq: number
  type: 'truncated'
  events: number
  bytes: number
}

/** MIME type to value: text as it is, binary as base64, JSON as JSON. */
export type ResultData = Record<string, unknown>

export interface RunError {
  name: string
  message: string
  traceback: string
}

/** A finished run with its collected events. */
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
  /** Why the kernel was replaced before or during this run. */
  contextRestarted?: string
  /** Linux killed a process of this run because the sandbox reached its memory limit: what happened, in words. */
  outOfMemory?: string
  /** Bytes that are missing in the fields above because of their limits. */
  truncated?: { stdoutBytes: number; stderrBytes: number; resultBytes: number }
}
