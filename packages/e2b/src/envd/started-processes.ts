import { Code, ConnectError } from '@connectrpc/connect'
import type { ProcessInfo } from '@dormouse/engine'
import type { BackendSandbox } from '../backend.ts'
import type { ProcessConfig, ProcessSelector } from '../wire/process.ts'

/** What a client said when it started a process. */
export interface StartedProcess {
  readonly config: ProcessConfig
  readonly tag: string | undefined
}

/** Sandboxes forget the oldest descriptions beyond this number; the processes themselves are not affected. */
const KEPT_PER_SANDBOX = 1000

/**
 * Remembers tags and command lines of processes, which Dormouse does not know. They are lost with the server; lists then
 * show the command line as one text, and selecting by tag finds nothing.
 */
export class StartedProcesses {
  readonly #bySandbox = new Map<string, Map<string, StartedProcess>>()

  add(sandboxId: string, processId: string, started: StartedProcess): void {
    let processes = this.#bySandbox.get(sandboxId)
    if (processes === undefined) {
      processes = new Map()
      this.#bySandbox.set(sandboxId, processes)
    }
    processes.set(processId, started)
    const [oldest] = processes.keys()
    if (processes.size > KEPT_PER_SANDBOX && oldest !== undefined) processes.delete(oldest)
  }

  forget(sandboxId: string): void {
    this.#bySandbox.delete(sandboxId)
  }

  find(sandboxId: string, processId: string): StartedProcess | undefined {
    return this.#bySandbox.get(sandboxId)?.get(processId)
  }

  /** The newest process with this pid or tag, also if it has ended. Throws a Connect error `not_found`. */
  async select(sandbox: BackendSandbox, wanted: ProcessSelector | undefined): Promise<ProcessInfo> {
    const selector = wanted?.selector
    if (selector?.case === undefined)
      throw new ConnectError('the process selector is empty', Code.InvalidArgument)
    const processes = await sandbox.use({ cause: 'process', what: 'listing processes' }, (guest) =>
      guest.processes.list(),
    )
    const matching = processes.filter((info) =>
      selector.case === 'pid'
        ? info.pid === selector.value
        : this.find(sandbox.id, info.processId)?.tag === selector.value,
    )
    const found = matching.find(({ state }) => state === 'running') ?? matching.at(-1)
    if (found !== undefined) return found
    throw new ConnectError(`process with ${selector.case} ${selector.value} not found`, Code.NotFound)
  }
}
