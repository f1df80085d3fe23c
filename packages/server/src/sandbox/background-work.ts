import { setTimeout as sleep } from 'node:timers/promises'
import { settledWithin } from '@dormouse/async'
import type { BackgroundProcess, Burrow } from '@dormouse/engine'
import type { Sandbox } from './sandbox.ts'

/** A sandbox whose agent does not answer within this time has no background processes. */
const CHECK_TIMEOUT_MS = 2_000
/** A hostile agent may send list after list. */
const LIST_INTERVAL_MS = 100

/**
 * The background processes of one sandbox: commands that were started and left, jobs of shells, children of runs. The
 * server asks the agent before the sandbox goes to sleep. If there are any, the agent reports when they end.
 */
export class BackgroundWork {
  readonly #sandbox: Sandbox
  #checking: Promise<void> | undefined
  /** The newest stream of lists. */
  #stream: AsyncIterable<readonly BackgroundProcess[]> | undefined

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox
  }

  /** Resolves when the work of the sandbox includes its background processes. Does not wake it, and never rejects. */
  async check(): Promise<void> {
    const { row, burrow, work } = this.#sandbox
    if (burrow === undefined || row.state !== 'running' || work.hasBackground || !work.countsBackground)
      return
    this.#checking ??= this.#firstList(burrow).finally(() => {
      this.#checking = undefined
    })
    await this.#checking
  }

  async #firstList(burrow: Burrow): Promise<void> {
    const stop = new AbortController()
    const listed = new Promise<void>((resolve) => {
      void this.#follow(burrow, { signal: stop.signal, onList: resolve }).finally(resolve)
    })
    if (!(await settledWithin(listed, CHECK_TIMEOUT_MS))) stop.abort()
  }

  async #follow(
    { guest }: Burrow,
    { signal, onList }: { signal: AbortSignal; onList: () => void },
  ): Promise<void> {
    const stream = guest.processes.background({ signal })
    this.#stream = stream
    // A stream that is slow to end must not clear what the next one has reported.
    const report = (processes: readonly BackgroundProcess[]) => {
      if (this.#stream === stream) this.#sandbox.work.setBackground(processes)
    }
    try {
      for await (const processes of stream) {
        report(processes)
        onList()
        await sleep(LIST_INTERVAL_MS, undefined, { ref: false })
      }
    } catch {
      // The sandbox was put to sleep, or its agent is of a version that does not report background processes.
    } finally {
      report([])
    }
  }
}
