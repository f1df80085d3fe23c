import { addAbortSignal, type Duplex } from 'node:stream'
import { DormouseError } from '@dormouse/contracts'
import { type Program, startProgram } from '../host/start-program.ts'
import { initProgram, nativeBuildDir } from '../native-programs.ts'
import type { FirstProcess } from '../process/first-process.ts'
import { UID_BASE, UID_COUNT } from '../template/shifted-root.ts'
import { InitStatus, saysReady } from './init-status.ts'

/** Far beyond what a loaded machine needs. Without it a start that hangs would never end. */
const START_TIMEOUT_MS = 60_000

/** The keys of native/src/config.h; a list gives one record per element. An empty record ends it. */
export type InitConfig = Readonly<Record<string, string | number | readonly string[]>>

export interface StartInit {
  /** Relative paths of the configuration start here. */
  readonly cwd: string
  readonly cgroups?: readonly string[]
}

/** A dormouse-init that has joined its cgroups, has made namespaces, and waits for its configuration. */
export interface WaitingInit {
  readonly isWaiting: boolean
  /**
   * Makes the burrow and returns its PID 1, when the agent listens. On failure the burrow may be half made, and the
   * caller removes it; nothing more of it is made once this has settled.
   */
  launch(config: InitConfig, signal?: AbortSignal): Promise<FirstProcess>
  /** Ends dormouse-init before there is a burrow. */
  cancel(): void
}

/** Starts dormouse-init and lets it make a burrow at once. */
export function launchInit({
  config,
  signal,
  ...start
}: StartInit & { config: InitConfig; signal?: AbortSignal }): Promise<FirstProcess> {
  return startInit(start).launch(config, signal)
}

export function startInit({ cwd, cgroups = [] }: StartInit): WaitingInit {
  const program = start({ cwd, cgroups })
  const [input, , , status, ready] = program.streams as [Duplex, undefined, undefined, Duplex, Duplex]
  // dormouse-init may fail before it has read everything; its message on the status pipe says more than EPIPE.
  input.on('error', () => {})
  return {
    get isWaiting() {
      return program.isRunning
    },
    cancel() {
      input.end()
      status.destroy()
      ready.destroy()
    },
    async launch(config, signal) {
      input.end(encodeConfig(config))
      const limit = AbortSignal.any([
        AbortSignal.timeout(START_TIMEOUT_MS),
        ...(signal === undefined ? [] : [signal]),
      ])
      addAbortSignal(limit, status)
      addAbortSignal(limit, ready)
      try {
        return await readReady({ status, ready })
      } catch (error) {
        // A child that is not recorded yet ends by itself when dormouse-init ends; a recorded one can be found and
        // killed.
        program.kill('SIGKILL')
        await program.exited
        if (signal?.aborted)
          throw new DormouseError('cancelled', 'The start was cancelled.', { cause: signal.reason })
        if (!limit.aborted) throw error
        throw new DormouseError('burrow_start_failed', 'The burrow did not start in time.', { cause: error })
      } finally {
        status.destroy()
        ready.destroy()
      }
    },
  }
}

function start({ cwd, cgroups = [] }: StartInit): Program {
  try {
    return startProgram({
      argv: [initProgram, nativeBuildDir, String(UID_BASE), String(UID_COUNT), ...cgroups],
      cwd,
      env: {},
      // The burrow must not die with the terminal of the server.
      isDetached: true,
      stdio: ['pipe', 'ignore', 'ignore', 'pipe', 'pipe'],
    })
  } catch (cause) {
    throw new DormouseError('burrow_start_failed', 'dormouse-init cannot be started.', { cause })
  }
}

/** dormouse-init reports PID 1 and errors; the agent can only report that it is ready. */
async function readReady({ status, ready }: { status: Duplex; ready: Duplex }): Promise<FirstProcess> {
  const initStatus = new InitStatus(status)
  if (await saysReady(ready)) return initStatus.first
  const why = await initStatus.failure
  throw new DormouseError(
    'burrow_start_failed',
    why === undefined ? 'The agent ended before it was ready.' : `The burrow did not start: ${why}`,
  )
}

function encodeConfig(config: InitConfig): Buffer {
  let records = ''
  for (const [key, value] of Object.entries(config)) {
    for (const element of Array.isArray(value) ? value : [value]) {
      const text = String(element)
      if (text.includes('\0')) throw new DormouseError('invalid_argument', `${key} must not contain NUL`)
      records += `${key}=${text}\0`
    }
  }
  return Buffer.from(`${records}\0`)
}
