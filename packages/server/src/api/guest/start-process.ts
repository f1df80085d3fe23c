import type { ProcessInfo, StartProcess } from '@dormouse/engine'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import { dateOf } from './file-view.ts'

type WhatToStart = Omit<Extract<StartProcess, { shell: string }>, 'shell'> & {
  readonly command?: string
  readonly args?: readonly string[]
}

/** Pre: `command` or `args` is given. */
export async function startProcess(
  sandbox: SandboxHandle,
  { command, args, ...options }: WhatToStart,
  signal: AbortSignal,
) {
  const what = command === undefined ? { args: args ?? [] } : { shell: command }
  const shown = command ?? args?.[0] ?? ''
  return sandbox.use({ cause: 'process', what: `starting ${shown.slice(0, 80)}`, signal }, async (guest) => {
    const pid = await guest.processes.start({ ...what, ...options })
    const found = (await guest.processes.list()).find((process) => process.pid === pid)
    // Missing only when hundreds of later processes have ended since.
    const info = found ?? missing(pid, shown, options)
    return { pid, info: processView(info) }
  })
}

export function processView({ pid, command, user, state, exitCode, startedAt, pty }: ProcessInfo) {
  const view = { pid, command, user, state, startedAt: dateOf(startedAt).toISOString(), pty }
  return exitCode === undefined ? view : { ...view, exitCode }
}

function missing(pid: number, command: string, { user, pty }: { user?: string; pty?: object }): ProcessInfo {
  const startedAt = Date.now()
  return { pid, command, user: user ?? '', state: 'exited', startedAt, pty: pty !== undefined }
}
