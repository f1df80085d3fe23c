import type { ProcessInfo, StartProcess } from '@dormouse/engine'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import { dateOf } from './file-view.ts'

type WhatToStart = Omit<Extract<StartProcess, { shell: string }>, 'shell'> & {
  readonly command?: string
  readonly args?: readonly string[]
  readonly keepAwake?: boolean
}

/** The agent does not count processes with this variable. Processes that they start inherit it. */
const KEEP_AWAKE = 'DORMOUSE_KEEP_AWAKE'

/** Pre: `command` or `args` is given. */
export async function startProcess(
  sandbox: SandboxHandle,
  { command, args, keepAwake, ...options }: WhatToStart,
  signal: AbortSignal,
) {
  const what = command === undefined ? { args: args ?? [] } : { shell: command }
  const shown = command ?? args?.[0] ?? ''
  return sandbox.use({ cause: 'process', what: `starting ${shown.slice(0, 80)}`, signal }, async (guest) => {
    const env =
      keepAwake === undefined ? options.env : { ...options.env, [KEEP_AWAKE]: keepAwake ? '1' : '0' }
    const processId = await guest.processes.start({ ...what, ...options, ...(env && { env }) })
    const found = (await guest.processes.list()).find((process) => process.processId === processId)
    // Missing only when hundreds of later processes have ended since.
    return processView(found ?? missing(processId, shown, options))
  })
}

export function processView({ processId, pid, command, user, state, exitCode, ...rest }: ProcessInfo) {
  const { startedAt, pty } = rest
  const view = { processId, pid, command, user, state, startedAt: dateOf(startedAt).toISOString(), pty }
  return exitCode === undefined ? view : { ...view, exitCode }
}

function missing(
  processId: string,
  command: string,
  { user, pty }: { user?: string; pty?: object },
): ProcessInfo {
  const startedAt = Date.now()
  return { processId, pid: 0, command, user: user ?? '', state: 'exited', startedAt, pty: pty !== undefined }
}
