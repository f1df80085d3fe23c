import { setTimeout as sleep } from 'node:timers/promises'
import { KeyedMutex } from '@dormouse/async'
import type { Burrow } from '@dormouse/engine'
import type { Log } from '../log.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { SandboxDependencies } from '../sandbox/sandbox-dependencies.ts'

const LOOK_MS = 10

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

  /**
   * Pre: the host has a lease and has claimed its sandboxes again. Ends early when `isHeld` is false, which then stays
   * so. A burrow that cannot be thawed for long, while CRIU is in it, does not delay the others.
   */
  async resume(isHeld: () => boolean): Promise<void> {
    await Promise.all([...this.#deps.sandboxes.all()].map((sandbox) => this.#resumeOne(sandbox, isHeld)))
  }

  async #resumeOne(sandbox: Sandbox, isHeld: () => boolean): Promise<void> {
    const { burrow, id } = sandbox
    if (burrow === undefined || !this.#stopped.has(burrow) || !isHeld()) return
    const isAsleep = () => sandbox.row.state === 'standby'
    const isOver = () => !isHeld() || sandbox.isDeleted || sandbox.burrow !== burrow
    if (!isAsleep()) {
      await this.#inTurn(burrow, id, 'thaw')
      // A snapshot may have been taken of it all the while. If the sandbox sleeps at it now, nothing in it may run.
      while (sandbox.row.state === 'suspending' && !isOver()) await sleep(LOOK_MS)
      if (isOver()) return
      if (isAsleep()) {
        await this.#inTurn(burrow, id, 'freeze')
        // Unless it was woken beside that.
        if (!isAsleep()) await this.#inTurn(burrow, id, 'thaw')
      }
    }
    if (isOver()) return
    await this.#deps.network.open(sandbox, burrow)
    if (isHeld()) this.#stopped.delete(burrow)
  }

  async #inTurn(burrow: Burrow, sandboxId: string, step: 'freeze' | 'thaw'): Promise<void> {
    await this.#turns
      .run(burrow.id, () => burrow[step]())
      .catch((err: unknown) => this.#log.error({ sandboxId, err }, `a burrow could not be ${DONE[step]}`))
  }
}

const DONE = { freeze: 'frozen', thaw: 'thawed' }
