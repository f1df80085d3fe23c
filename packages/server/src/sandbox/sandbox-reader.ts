import { hasErrorCode } from '@dormouse/contracts'
import type { VariablesAnswer } from '@dormouse/contracts/http'
import type { ContextVariables, Guest } from '@dormouse/engine'
import type { Sandbox } from './sandbox.ts'

/** A burrow at its memory limit may not answer at all. */
const ANSWER_MS = 5_000

/** Reads what is known of a sandbox. Neither wakes it nor keeps it awake. */
export class SandboxReader {
  readonly #sandbox: Sandbox

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox
  }

  /** Of an awake sandbox as they are now, of a sleeping one as they were when it was saved. */
  async variables(signal?: AbortSignal): Promise<VariablesAnswer> {
    const { deps } = this.#sandbox
    const live = await this.#ifAwake(async (guest) => {
      const contexts = await guest.variables
        .list({ timeoutMs: ANSWER_MS, ...(signal && { signal }) })
        .catch(ofOldAgent)
      return view(contexts, deps.clock.wallMs(), { isLive: true })
    }, signal)
    if (live !== undefined) return live
    const recorded = deps.variables.find(this.#sandbox.row.head)
    return view(recorded?.contexts ?? [], recorded?.recordedAt, { isLive: false })
  }

  /** Undefined when the sandbox sleeps. */
  async #ifAwake<Value>(
    work: (guest: Guest) => Promise<Value>,
    signal: AbortSignal | undefined,
  ): Promise<Value | undefined> {
    const sandbox = this.#sandbox
    if (sandbox.runningBurrow() === undefined) return undefined
    using _held = await sandbox.lock.read(signal)
    const burrow = sandbox.runningBurrow()
    return burrow === undefined ? undefined : await work(burrow.guest)
  }
}

/** Sandboxes that were saved by an older version have an agent that does not know variables. */
function ofOldAgent(error: unknown): readonly ContextVariables[] {
  if (hasErrorCode(error, 'invalid_argument')) return []
  throw error
}

function view(
  contexts: readonly ContextVariables[],
  atMs: number | undefined,
  { isLive }: { isLive: boolean },
): VariablesAnswer {
  return {
    isLive,
    ...(atMs !== undefined && { at: new Date(atMs).toISOString() }),
    contexts: contexts.map(({ context, language, state, variables, more }) => ({
      ...{ name: context, language, state, variables, more },
    })),
  }
}
