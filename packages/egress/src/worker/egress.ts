import { closeSync } from 'node:fs'
import { DormouseError } from '@dormouse/contracts'
import { CounterCells, type EgressCounters } from '../gate/counter-cells.ts'
import type { Denial } from '../gate/denial-collector.ts'
import type { GateDescriptors } from '../gate/gate.ts'
import type { OpenEnd, ParkedEnd } from '../gate/parked-ends.ts'
import { WORKER_RESTART_DELAY_MS } from '../limits.ts'
import { checkRules } from '../policy/check-rules.ts'
import type { EgressPolicy } from '../policy/egress-policy.ts'
import type { EgressListeners, FailedLookup } from './egress-listeners.ts'
import type { EgressOptions } from './egress-options.ts'
import { WorkerDied, WorkerThread } from './worker-thread.ts'

export interface EgressStartOptions extends EgressOptions {
  /** Addresses of this host besides those of its interfaces. */
  readonly hostAddresses?: () => string[]
  /**
   * Opens a new gate for a sandbox after the worker died. Without it such a sandbox stays cut off until the next
   * attach.
   */
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
 * The main thread's end of egress; the sockets are in a worker thread. Owns descriptors from `attach` on. The thread
 * that took a descriptor closes it exactly once: on detach, on a new attach, or when the thread ends.
 */
export class Egress {
  readonly #options: EgressStartOptions
  readonly #known = new Map<string, Known>()
  readonly #listeners = new Set<(denial: Denial) => void>()
  readonly #lookupListeners = new Set<(failed: FailedLookup) => void>()
  readonly #dataListeners = new Set<(sandboxId: string) => void>()
  readonly #lostListeners = new Set<EgressListeners['onLost']>()
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
      // A worker that cannot start is not restarted.
      egress.#isClosed = true
      throw error
    }
  }

  /** Throws `invalid_argument` when a rule can never allow anything on this host. */
  check(policy: EgressPolicy): void {
    checkRules(policy.allow, this.#options.reachable)
  }

  /**
   * Replaces an earlier attach. When it resolves, connections are served, or will be as soon as a worker that just died
   * is replaced. When it rejects, none are served, and the descriptors are closed.
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
      // The next worker attaches it again.
      if (error instanceof WorkerDied && this.#options.reopen !== undefined) return
      known.isAttached = false
      throw error
    }
  }

  /** Resolves when connections that the policy forbids have ended. */
  async change(sandboxId: string, policy: EgressPolicy): Promise<void> {
    const known = this.#known.get(sandboxId)
    if (known === undefined) throw new DormouseError('internal', `egress: ${sandboxId} was never attached`)
    known.policy = policy
    const thread = await this.#thread
    this.#sendHostAddresses(thread)
    await thread.ask({ type: 'change', sandboxId, policy }).catch(ignoreWorkerDied)
  }

  /** Ends the connections and closes the descriptors. Does nothing when the sandbox is not attached. */
  async detach(sandboxId: string): Promise<void> {
    const known = this.#known.get(sandboxId)
    if (known === undefined) return
    known.isAttached = false
    await (await this.#thread).ask({ type: 'detach', sandboxId }).catch(ignoreWorkerDied)
  }

  /** See `GateKeeper` of the engine. Ends that are not returned end with their burrow. */
  async park(sandboxId: string): Promise<readonly ParkedEnd[]> {
    if (this.#known.get(sandboxId) === undefined) return []
    const parked = await (await this.#thread).ask({ type: 'park', sandboxId }).catch(ignoreWorkerDied)
    return (parked ?? []) as readonly ParkedEnd[]
  }

  /** What the connections of the sandbox connect to that are not parked. */
  async listOpen(sandboxId: string): Promise<readonly string[]> {
    if (this.#known.get(sandboxId) === undefined) return []
    const open = await (await this.#thread).ask({ type: 'list-open', sandboxId }).catch(ignoreWorkerDied)
    return (open ?? []) as readonly string[]
  }

  async unpark(sandboxId: string): Promise<void> {
    await (await this.#thread).ask({ type: 'unpark', sandboxId }).catch(ignoreWorkerDied)
  }

  /** Parked connections continue with these ends, which it owns; those without one are over. */
  async resume(sandboxId: string, ends: readonly OpenEnd[]): Promise<void> {
    await (await this.#thread).ask({ type: 'resume', sandboxId, ends }).catch(ignoreWorkerDied)
  }

  /** Ends the connections that wait for the next burrow. */
  async endParked(sandboxId: string): Promise<void> {
    await (await this.#thread).ask({ type: 'end-parked', sandboxId }).catch(ignoreWorkerDied)
  }

  /** The sandbox was deleted: drops its pins and counters. */
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

  /** Denials of one kind within a few seconds make one event with a count. */
  onDenial(listener: (denial: Denial) => void): void {
    this.#listeners.add(listener)
  }

  /** Resolves when the listeners have heard of all denials until now. */
  async reportDenials(): Promise<void> {
    await (await this.#thread).ask({ type: 'report-denials' }).catch(ignoreWorkerDied)
  }

  /** Reports at once, but of one sandbox only a few in a second. */
  onFailedLookup(listener: (failed: FailedLookup) => void): void {
    this.#lookupListeners.add(listener)
  }

  /** Data has arrived on a parked connection: once for each sleep of a sandbox. */
  onDataAsleep(listener: (sandboxId: string) => void): void {
    this.#dataListeners.add(listener)
  }

  /** Connections ended with their burrow. */
  onLost(listener: EgressListeners['onLost']): void {
    this.#lostListeners.add(listener)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    // A worker that did not start need not be closed.
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
      onFailedLookup: (failed) => {
        for (const listener of this.#lookupListeners) listener(failed)
      },
      onDataAsleep: (sandboxId) => {
        for (const listener of this.#dataListeners) listener(sandboxId)
      },
      onLost: (sandboxId, to) => {
        for (const listener of this.#lostListeners) listener(sandboxId, to)
      },
      onDied: (cause) => this.#restart(cause),
    })
  }

  /** All sockets of the worker are closed: sandboxes are cut off, never let through unchecked. */
  #restart(cause: Error): void {
    if (this.#isClosed) return
    this.#options.onError?.('The egress worker died and is being restarted.', cause)
    this.#thread = new Promise<void>((resolve) => setTimeout(resolve, WORKER_RESTART_DELAY_MS)).then(() =>
      this.#start(),
    )
    void this.#thread
      .then(() => this.#reattach())
      .catch((error: unknown) => this.#options.onError?.('The egress worker did not restart.', error))
  }

  async #reattach(): Promise<void> {
    const { reopen, onError } = this.#options
    const lost = [...this.#known].filter(([, known]) => known.isAttached)
    await Promise.all(
      lost.map(async ([sandboxId, known]) => {
        try {
          if (reopen === undefined) throw new Error('its gate cannot be opened again')
          const gate = await reopen(sandboxId)
          // The sandbox may have been detached while the gate was opened.
          if (known.isAttached) await this.attach(sandboxId, gate, known.policy)
          else closeDescriptors(gate)
        } catch (error) {
          known.isAttached = false
          onError?.(`Sandbox ${sandboxId} has no network until its next wake.`, error)
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
      // It was not an open descriptor.
    }
  }
}

/** The death of the worker has ended all connections anyway. */
function ignoreWorkerDied(error: unknown): undefined {
  if (!(error instanceof WorkerDied)) throw error
}
