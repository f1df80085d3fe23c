// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type ProcessAnswer = {
  processId: string
  pid: number
  command: string
  user: string
  state: 'exited' | 'running'
  exitCode?: number | undefined
  startedAt: string
  pty: boolean
}

export type ProcessEventAnswer =
  | { seq: number; type: 'start'; processId: string; pid: number }
  | { seq: number; type: 'stderr' | 'stdout'; data: string }
  | { seq: number; type: 'truncated'; events: number; bytes: number }
  | {
      seq: number
      type: 'exit'
      exitCode: number
      durationMs: number
      timedOut?: boolean | undefined
      signal?: string | undefined
      outOfMemory?: string | undefined
    }

export type ProcessListAnswer = { items: readonly ProcessAnswer[] }

export type ProcessResultAnswer = {
  processId: string
  pid: number
  stdout: string
  stderr: string
  exitCode: number
  durationMs: number
  timedOut?: boolean | undefined
  signal?: string | undefined
  outOfMemory?: string | undefined
  truncated?: { stdoutBytes: number; stderrBytes: number } | undefined
}

export type StartProcessBody = {
  command?: string
  args?: string[]
  cwd?: string
  env?: Record<string, string>
  user?: string
  stdin?: boolean
  timeoutMs?: number
  pty?: { cols: number; rows: number }
  keepAwake?: boolean
  wait?: boolean | undefined
}
