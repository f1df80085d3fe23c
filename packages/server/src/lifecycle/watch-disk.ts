import { setTimeout as sleep } from 'node:timers/promises'
import type { Burrow } from '@dormouse/engine'
import type { LiveSandbox } from './live-sandbox.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'

/** How long one that was just looked at is left alone, at least. */
const APART_MS = 2_000
/** After each look there is a rest so many times as long: however many sandboxes run, looking takes a twentieth of one CPU at most. */
const REST_FACTOR = 20

/**
 * Looks at what running sandboxes have on disk, one after the other. The file systems of most hosts have no quota that we could set for
 * them, so one that writes too much is found a little late: it is put to standby then, nothing lost, and stays there until it may have more.
 */
export class DiskWatch {
  readonly #registry: SandboxRegistry
  readonly #nextLook = new WeakMap<LiveSandbox, number>()
  #isLooking = false

  constructor(registry: SandboxRegistry) {
    this.#registry = registry
  }

  /** Takes its time; whoever calls it does not wait. */
  async round(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    try {
      for (const sandbox of [...this.#registry.all()]) await this.#look(sandbox)
    } finally {
      this.#isLooking = false
    }
  }

  async #look(sandbox: LiveSandbox): Promise<void> {
    const { body } = sandbox
    const { burrow } = body
    const began = performance.now()
    if (burrow === undefined || body.row.state !== 'running') return
    if (began < (this.#nextLook.get(sandbox) ?? 0)) return
    const diskBytes = await this.#writtenBytes(burrow)
    const tookMs = performance.now() - began
    this.#nextLook.set(sandbox, began + tookMs + APART_MS)
    const isOver = diskBytes !== undefined && diskBytes > body.row.limits.diskBytes
    if (isOver && body.burrow === burrow) await this.#putToStandby(sandbox, diskBytes)
    await sleep(tookMs * REST_FACTOR, undefined, { ref: false })
  }

  async #putToStandby(sandbox: LiveSandbox, diskBytes: number): Promise<void> {
    await sandbox.sleepForDisk(diskBytes).catch((error: unknown) => {
      const fields = { sandboxId: sandbox.id, diskBytes, err: error }
      this.#registry.parts.log.warn(fields, 'one that writes too much could not be put to standby')
    })
  }

  /** undefined when it has ended meanwhile. */
  async #writtenBytes(burrow: Burrow): Promise<number | undefined> {
    try {
      return await this.#registry.parts.engine.writtenBytes(burrow)
    } catch {
      return undefined
    }
  }
}
