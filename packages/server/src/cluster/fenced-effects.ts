import { KeyedMutex } from '@dormouse/async'
import type { Burrow } from '@dormouse/engine'
import type { Log } from '../log.ts'
import type { SandboxDependencies } from '../sandbox/sandbox-dependencies.ts'

/** What the sandboxes of this host do outside: it stops when the lease has ended, and continues with the next one. */
export class FencedEffects {
  readonly #deps: Pick<SandboxDependencies, 'sandboxes' | 'network'>
  readonly #log: Pick<Log, 'error'>
  /** Those that were stopped. A burrow that began later has a gate of its own. */
  readonly #stopped = new WeakSet<Burrow>()
  /**
   * One freeze or thaw of a burrow at a time, in the order in which they were asked for. A freeze takes longer than the
   * next lease may: a thaw beside it would come first, and the burrow would stay frozen.
   */
  readonly #turns = new KeyedMutex()

  constructor(deps: Pick<SandboxDependencies, 'sandboxes' | 'network'>, log: Pick<Log, 'error'>) {
    this.#deps = deps
    this.#log = log
  }

  /** At once and without waiting. The gates' thread looks at the deadline of the lease by itself; this ends the rest. */
  stop(): void {
    const { sandboxes, network } = this.#deps
    for (const { burrow, id, row } of sandboxes.all()) {
      if (burrow === undefined || row.state === 'standby') continue
      this.#stopped.add(burrow)
      network.shut(id)
      void this.#inTurn(burrow, id, 'freeze')
    }
  }

  /** Pre: the host has a lease and has claimed its sandboxes again. Ends early when `isHeld` is false again. */
  async resume(isHeld: () => boolean): Promise<void> {
    const { sandboxes, network } = this.#deps
    for (const sandbox of sandboxes.all()) {
      const { burrow, id, row } = sandbox
      if (burrow === undefined || !this.#stopped.has(burrow)) continue
      if (row.state === 'standby' || sandbox.isDeleted) continue
      if (!isHeld()) return
      await this.#inTurn(burrow, id, 'thaw')
      // The lease ended meanwhile, and its end has stopped this burrow again.
      if (!isHeld()) return
      await network.open(sandbox, burrow)
      if (!isHeld()) return
      this.#stopped.delete(burrow)
    }
  }

  async #inTurn(burrow: Burrow, sandboxId: string, step: 'freeze' | 'thaw'): Promise<void> {
    await this.#turns
      .run(burrow.id, () => burrow[step]())
      .catch((err: unknown) => this.#log.error({ sandboxId, err }, `a burrow could not be ${DONE[step]}`))
  }
}

const DONE = { freeze: 'frozen', thaw: 'thawed' }
