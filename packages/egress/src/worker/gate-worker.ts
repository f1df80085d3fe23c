import { Socket } from 'node:net'
import { KeyedMutex } from '@dormouse/async'
import { CounterCells } from '../gate/counter-cells.ts'
import type { GateOptions } from '../gate/gate.ts'
import type { OpenEnd, ParkedEnd } from '../gate/parked-ends.ts'
import { reset } from '../gate/reset.ts'
import type { EgressPolicy } from '../policy/egress-policy.ts'
import type { EgressListeners } from './egress-listeners.ts'
import type { EgressOptions } from './egress-options.ts'
import { HostEgress } from './host-egress.ts'
import type { AttachMessage } from './messages.ts'
import { SandboxEgress } from './sandbox-egress.ts'

/** All gates of this server. Lives in the worker thread. */
export class GateWorker {
  readonly #host: HostEgress
  readonly #sandboxes = new Map<string, SandboxEgress>()
  /** Requests for one sandbox are served in the order in which they arrive. */
  readonly #locks = new KeyedMutex()
  readonly #destinationOf: GateOptions['destinationOf']

  constructor(
    options: EgressOptions,
    listeners: EgressListeners,
    destinationOf?: GateOptions['destinationOf'],
  ) {
    this.#host = new HostEgress(options, listeners)
    this.#destinationOf = destinationOf
  }

  setHostAddresses(addresses: readonly string[]): void {
    this.#host.setHostAddresses(addresses)
  }

  attach({ sandboxId, descriptors, policy, counters, taken }: AttachMessage): Promise<void> {
    return this.#locks.run(sandboxId, () => {
      const sandbox =
        this.#sandboxes.get(sandboxId) ?? new SandboxEgress(sandboxId, new CounterCells(counters), this.#host)
      this.#sandboxes.set(sandboxId, sandbox)
      Atomics.store(new Int32Array(taken), 0, 1)
      return sandbox.attach(descriptors, policy, this.#destinationOf)
    })
  }

  change(sandboxId: string, policy: EgressPolicy): Promise<void> {
    return this.#locks.run(sandboxId, async () => this.#sandboxes.get(sandboxId)?.change(policy))
  }

  detach(sandboxId: string): Promise<void> {
    return this.#locks.run(sandboxId, async () => this.#sandboxes.get(sandboxId)?.detach())
  }

  park(sandboxId: string): Promise<readonly ParkedEnd[]> {
    return this.#locks.run(sandboxId, async () => (await this.#sandboxes.get(sandboxId)?.park()) ?? [])
  }

  listOpen(sandboxId: string): Promise<readonly string[]> {
    return this.#locks.run(sandboxId, async () => this.#sandboxes.get(sandboxId)?.listOpen() ?? [])
  }

  unpark(sandboxId: string): Promise<void> {
    return this.#locks.run(sandboxId, async () => this.#sandboxes.get(sandboxId)?.unpark())
  }

  resume(sandboxId: string, ends: readonly OpenEnd[]): Promise<void> {
    return this.#locks.run(sandboxId, async () => {
      const sandbox = this.#sandboxes.get(sandboxId)
      if (sandbox !== undefined) sandbox.resume(ends)
      else for (const { fd } of ends) reset(new Socket({ fd }))
    })
  }

  endParked(sandboxId: string): Promise<void> {
    return this.#locks.run(sandboxId, async () => this.#sandboxes.get(sandboxId)?.endParked())
  }

  forget(sandboxId: string): Promise<void> {
    return this.#locks.run(sandboxId, async () => {
      await this.#sandboxes.get(sandboxId)?.forget()
      this.#sandboxes.delete(sandboxId)
    })
  }

  /** Sends denials that wait for more of their kind. */
  async reportDenials(): Promise<void> {
    this.#host.denials.flush()
  }

  async close(): Promise<void> {
    await Promise.all([...this.#sandboxes.keys()].map((sandboxId) => this.forget(sandboxId)))
    this.#host.denials.flush()
  }
}
