import { closeSync } from 'node:fs'
import { DormouseError } from '@dormouse/contracts'
import { CounterCells, type EgressCounters } from '../gate/counter-cells.ts'
import type { Denial } from '../gate/denial-collector.ts'
import type { GateDescriptors } from '../gate/gate.ts'
import { WORKER_RESTART_DELAY_MS } from '../limits.ts'
import { checkRules } from '../policy/check-rules.ts'
import type { EgressPolicy } from '../policy/egress-policy.ts'
import type { EgressOptions } from './egress-options.ts'
import { WorkerDied, WorkerThread } from './worker-thread.ts'

export interface EgressStartOptions extends EgressOptions {
  /** Addresses of this host beside those of its interfaces. */
  readonly hostAddresses?: () => string[]
  /** A new gate for a sandbox whose descriptors died with the worker. Without it such a sandbox stays cut off until it is attached again. */
  readonly reopen?: (sandboxId: string) => Promise<GateDescriptors>
  readonly onError?: (message: string, cause: unknown) => void
}

interface Known {
  readonly counters: CounterCells
  policy: EgressPolicy
  isAttached: boolean
}

const NO_COUNTERS: EgressCounters = { bytesOut: 0, bytesIn: 0, connections: 0, denied: 0, names: 0 }

/**
 * What leaves the sandboxes of this server. Lives in the main thread; the sockets are in a worker. Descriptors belong to it from `attach` on,
 * and are closed exactly once: by the thread that took them, when the sandbox is detached, attached anew, or the thread ends.
 */
export class Egress {
  readonly #options: EgressStartOptions
  readonly #known = new Map<string, Known>()
  readonly #listeners = new Set<(denial: Denial) => void>()
  #thread: Promise<WorkerThread>
  #isClosed = false

  private constructor(options: EgressStartOptions) {
    this.#options = options
    this.#thread = this.#start()
  }

  static async start(options: EgressStartOptions): Promise<Egress> {
    const egress = new Egress(options)
    try {
      await egress.#thread
      return egress
    } catch (error) {
      // One that cannot even start is not started over and over.
      egress.#isClosed = true
      throw error
    }
  }

  /** Throws `invalid_argument` when a rule could never allow anything on this host. */
  check(policy: EgressPolicy): void {
    checkRules(policy.allow, this.#options.reachable)
  }

  /**
   * Takes the place of an earlier attach. When it resolves, connections arrive, or will as soon as a worker that has just died has a successor;
   * when it rejects, none do, and the descriptors are closed.
   */
  async attach(sandboxId: string, gate: GateDescriptors, policy: EgressPolicy): Promise<void> {
    const known = this.#known.get(sandboxId) ?? { counters: new CounterCells(), policy, isAttached: true }
    this.#known.set(sandboxId, Object.assign(known, { policy, isAttached: true }))
    const taken = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)
    try {
      const thread = await this.#thread
      this.#sendHostAddresses(thread)
      const descriptors = { tcp: gate.tcp, dns: gate.dns }
      const attach = { sandboxId, descriptors, policy, counters: known.counters.memory, taken }
      await thread.ask({ type: 'attach', attach })
    } catch (error) {
      if (Atomics.load(new Int32Array(taken), 0) === 0) closeDescriptors(gate)
      // The next worker attaches it again, if it can.
      if (error instanceof WorkerDied && this.#options.reopen !== undefined) return
      known.isAttached = false
      throw error
    }
  }

  /** When it resolves, connections that are not allowed any more have ended. */
  async change(sandboxId: string, policy: EgressPolicy): Promise<void> {
    const known = this.#known.get(sandboxId)
    if (known === undefined) throw new DormouseError('internal', `egress: ${sandboxId} was never attached`)
    known.policy = policy
    const thread = await this.#thread
    this.#sendHostAddresses(thread)
    await thread.ask({ type: 'change', sandboxId, policy }).catch(ignoreWorkerDied)
  }

  /** Ends its connections and closes the descriptors. Does nothing when it is not attached. */
  async detach(sandboxId: string): Promise<void> {
    const known = this.#known.get(sandboxId)
    if (known === undefined) return
    known.isAttached = false
    await (await this.#thread).ask({ type: 'detach', sandboxId }).catch(ignoreWorkerDied)
  }

  /** The sandbox is gone for good: so are its pins and counters. */
  forget(sandboxId: string): void {
    this.#known.delete(sandboxId)
    void this.#thread.then(
      (thread) => thread.tell({ type: 'forget', sandboxId }),
      () => {},
    )
  }

  counters(sandboxId: string): EgressCounters {
    return this.#known.get(sandboxId)?.counters.read() ?? NO_COUNTERS
  }

  /** Many refusals make few events: those of one kind within some seconds are one, with their number. */
  onDenial(listener: (denial: Denial) => void): void {
    this.#listeners.add(listener)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const thread = await this.#thread.catch(() => undefined)
    await thread?.close()
  }

  #start(): Promise<WorkerThread> {
    const { hostAddresses: _, reopen: __, onError: ___, ...options } = this.#options
    return WorkerThread.start({
      options,
      onDenial: (denial) => {
        for (const listener of this.#listeners) listener(denial)
      },
      onDied: (cause) => this.#restart(cause),
    })
  }

  /** Everything the worker had is closed: sandboxes are cut off, not let through. */
  #restart(cause: Error): void {
    if (this.#isClosed) return
    this.#options.onError?.('The egress worker has died; it is started again.', cause)
    this.#thread = new Promise<void>((resolve) => setTimeout(resolve, WORKER_RESTART_DELAY_MS)).then(() =>
      this.#start(),
    )
    void this.#thread.then(() => this.#reattach()).catch(() => {})
  }

  async #reattach(): Promise<void> {
    const { reopen, onError } = this.#options
    const lost = [...this.#known].filter(([, known]) => known.isAttached)
    await Promise.all(
      lost.map(async ([sandboxId, known]) => {
        try {
          if (reopen === undefined) throw new Error('there is no way to open its gate again')
          const gate = await reopen(sandboxId)
          // It may have been detached, and its burrow may be gone, while the gate was opened.
          if (known.isAttached) await this.attach(sandboxId, gate, known.policy)
          else closeDescriptors(gate)
        } catch (error) {
          known.isAttached = false
          onError?.(`Sandbox ${sandboxId} is cut off from the network until it wakes up again.`, error)
        }
      }),
    )
  }

  #sendHostAddresses(thread: WorkerThread): void {
    const addresses = this.#options.hostAddresses?.() ?? []
    if (addresses.length > 0) thread.tell({ type: 'host-addresses', addresses })
  }
}

function closeDescriptors({ tcp, dns }: GateDescriptors): void {
  for (const fd of [tcp, dns]) {
    try {
      closeSync(fd)
    } catch {
      // Never was one.
    }
  }
}

/** With the worker, everything has ended that was to be ended. */
function ignoreWorkerDied(error: unknown): void {
  if (!(error instanceof WorkerDied)) throw error
}
