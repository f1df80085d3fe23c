import { addAbortSignal, type Duplex } from 'node:stream'
import { DormouseError } from '@dormouse/contracts'
import { type Program, startProgram } from '../host/start-program.ts'
import { initProgram } from '../native-programs.ts'
import type { FirstProcess } from '../process/first-process.ts'
import { InitStatus, saysReady } from './init-status.ts'

/** Far beyond what a loaded machine needs; without it a hung start would hold its place for ever. */
const START_TIMEOUT_MS = 60_000

/** The keys of native/src/config.h; a list gives one record per element. */
export type InitConfig = Readonly<Record<string, string | number | readonly string[]>>

export interface StartInit {
  /** Directory the relative paths of the configuration start from. */
  readonly cwd: string
  readonly cgroups?: readonly string[]
}

/** A dormouse-init that has joined its cgroups and waits to be told what to make. */
export interface WaitingInit {
  readonly isWaiting: boolean
  /**
   * Lets it make the burrow; resolves with its PID 1 when the agent listens. On failure the burrow may exist half way and has to be removed by
   * the caller; but nothing of it comes into being any more once this has settled.
   */
  launch(config: InitConfig, signal?: AbortSignal): Promise<FirstProcess>
  /** It ends without having made anything. */
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
  // It may refuse before it has read everything; its own words on the status pipe say more than EPIPE.
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
        // A child that has not been recorded yet ends by itself when its maker is gone; a recorded one can be found and killed.
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
      argv: [initProgram, ...cgroups],
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

/** dormouse-init says who PID 1 is; the agent can say that it is ready and nothing else. */
async function readReady({ status, ready }: { status: Duplex; ready: Duplex }): Promise<FirstProcess> {
  const told = new InitStatus(status)
  if (await saysReady(ready)) return told.first
  const why = await told.failure
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
  return Buffer.from(records)
}
