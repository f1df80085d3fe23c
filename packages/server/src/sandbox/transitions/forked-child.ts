import { newSandboxId, type SandboxId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { SandboxRow } from '../../store/sandbox-rows.ts'
import { Sandbox } from '../sandbox.ts'
import { beginRow } from './begin-row.ts'
import { deleteSandbox, remove } from './remove.ts'

/** The snapshot that children start from, and the sandbox that it was taken of. */
export type Origin = Required<Pick<SandboxRow, 'head' | 'headOf'>>

/**
 * A child of a fork. Once it is added, callers find it in state `creating`; a call to it waits until it runs, and not
 * for other children.
 */
export class ForkedChild {
  readonly sandbox: Sandbox
  readonly #parent: Sandbox
  /** Connections of the parent that are in the snapshot. They end here. */
  #lost: readonly string[] = []
  #unlock = () => {}

  constructor(parent: Sandbox) {
    const { deps, row } = parent
    this.#parent = parent
    this.sandbox = new Sandbox(deps, childOf(row, deps.clock.wallMs()))
  }

  get id(): SandboxId {
    return this.sandbox.id
  }

  /** Pre: in a transaction in which the snapshot has a row. From here on the snapshot is a head, and stays. */
  write(origin: Origin): void {
    const { sandbox } = this
    const { deps } = sandbox
    const { row } = this.#parent
    deps.lineage.put(this.id, row.id)
    sandbox.write({ fields: origin, intent: 'create' })
    for (const listener of deps.listeners) listener.forked?.(row, sandbox.row)
  }

  /** Pre: its row is written. Holds its lock until it runs, or is removed. */
  add(lost: readonly string[]): void {
    this.#lost = lost
    void this.sandbox.lock.write(() => new Promise<void>((resolve) => (this.#unlock = resolve)))
    this.sandbox.deps.sandboxes.add(this.sandbox)
  }

  /** Its processes run: calls continue. */
  run(burrow: Burrow, latencyMs: number): void {
    const { sandbox } = this
    sandbox.work.touch()
    sandbox.move('running', {
      newBurrow: { burrow, isContinued: true },
      intent: null,
      entry: { event: 'created', cause: `fork of ${this.#parent.id}`, latencyMs },
      // Does not wait for the disk: after a power cut there was no fork.
      withoutSync: true,
    })
    sandbox.deps.network.forked(sandbox.id, this.#lost)
    this.#unlock()
  }

  /** Another child failed. This one may run already, and have served calls. */
  async remove(): Promise<void> {
    const { sandbox } = this
    const isCreating = sandbox.row.state === 'creating'
    try {
      await (isCreating ? remove(sandbox) : deleteSandbox(sandbox))
    } catch (err) {
      sandbox.deps.log.warn({ sandboxId: sandbox.id, err }, 'a child of a failed fork is not removed yet')
      sandbox.pendingWrites.add({ write: () => remove(sandbox) })
    } finally {
      this.#unlock()
    }
  }
}

export function childOf(parent: SandboxRow, now: number): SandboxRow {
  return {
    ...parent,
    id: newSandboxId(),
    name: undefined,
    head: undefined,
    headOf: undefined,
    forkedFrom: parent.id,
    ...beginRow(now),
  }
}
