import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { VariablesAnswer } from '@dormouse/contracts/http'
import type { ContextVariables, Guest, SnapshotFiles } from '@dormouse/engine'
import type { AttachOptions } from './attach.ts'
import type { Sandbox } from './sandbox.ts'
import { requireExists } from './sandbox-errors.ts'
import type { UseOptions } from './use-options.ts'

/** A burrow at its memory limit may not answer at all. */
const ANSWER_MS = 5_000

/** The files of a sandbox, wherever they are. A sandbox itself is one, too. */
export interface FilesAccess {
  use<Value>(options: UseOptions, work: (guest: { files: SnapshotFiles }) => Promise<Value>): Promise<Value>
  attach<Item>(
    options: AttachOptions,
    open: (guest: { files: SnapshotFiles }) => AsyncIterable<Item>,
  ): AsyncGenerator<Item>
}

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

  /** The files of an awake sandbox as they are now, of a sleeping one as its snapshot has them. */
  readonly files: FilesAccess = {
    use: async (options, work) => {
      using _held = await this.#sandbox.lock.read(options.signal)
      const burrow = this.#sandbox.runningBurrow()
      return await work(burrow?.guest ?? { files: this.#snapshotFiles() })
    },
    attach: (options, open) => {
      const isAwake = this.#sandbox.runningBurrow() !== undefined
      return isAwake ? this.#sandbox.attach(options, open) : each(open({ files: this.#snapshotFiles() }))
    },
  }

  #snapshotFiles(): SnapshotFiles {
    const { row, deps } = this.#sandbox
    requireExists(this.#sandbox)
    if (row.head === undefined) throw new DormouseError('conflict', 'This sandbox has no files yet.')
    deps.quarantine.require(row, row.head)
    return deps.engine.snapshotFiles(row.head)
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

async function* each<Item>(items: AsyncIterable<Item>): AsyncGenerator<Item> {
  yield* items
}
