import type { MicrovmHost } from '../microvm-host.ts'
import { type HeldQemu, type HoldQemu, holdQemu, isHeldAlive } from './hold-qemu.ts'
import { removeBurrow } from './remove-burrow.ts'

/** One for each of the machines that were used last: a QEMU that waits takes about 30 MB. */
const SPARES_MAX = 2
/** New spares are made when the host has nothing more urgent to do. */
const REFILL_DELAY_MS = 250

interface Spare {
  readonly key: string
  readonly held: HeldQemu
}

const pools = new WeakMap<MicrovmHost, SparePool>()

/** The pool of an engine. */
export function sparesOf(host: MicrovmHost): SparePool {
  const pool = pools.get(host) ?? new SparePool(host)
  pools.set(host, pool)
  return pool
}

/** Keeps a QEMU that waits for a snapshot to load. The first use of a machine makes the first spare of it. */
class SparePool implements AsyncDisposable {
  readonly #host: MicrovmHost
  /** The one that was made last is at the end. */
  readonly #ready: Spare[] = []
  readonly #timers = new Map<string, NodeJS.Timeout>()
  readonly #making = new Set<Promise<void>>()
  readonly #filling = new Set<string>()
  #isClosed = false

  constructor(host: MicrovmHost) {
    this.#host = host
  }

  /** How many wait. */
  get size(): number {
    return this.#ready.length
  }

  /** Returns a QEMU that waits for a snapshot, or starts one. The caller owns it, and removes it on failure. */
  async take(hold: HoldQemu): Promise<HeldQemu> {
    const key = JSON.stringify([hold.machine, hold.toolsDisk])
    this.#fillSoon(key, hold)
    for (;;) {
      const index = this.#ready.findIndex((spare) => spare.key === key)
      const [spare] = index === -1 ? [] : this.#ready.splice(index, 1)
      if (spare === undefined) return holdQemu(this.#host, hold)
      if (await isHeldAlive(spare.held)) return spare.held
      await this.#discard(spare)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    for (const timer of this.#timers.values()) clearTimeout(timer)
    await Promise.all(this.#making)
    await Promise.all(this.#ready.splice(0).map((spare) => this.#discard(spare)))
  }

  #fillSoon(key: string, { machine, toolsDisk, isIncoming }: HoldQemu): void {
    clearTimeout(this.#timers.get(key))
    const timer = setTimeout(() => {
      this.#timers.delete(key)
      const making = this.#fill(key, { machine, toolsDisk, isIncoming }).then(() => {
        this.#making.delete(making)
      })
      this.#making.add(making)
    }, REFILL_DELAY_MS)
    // Spares must not keep a process alive that has nothing else to do.
    timer.unref()
    this.#timers.set(key, timer)
  }

  async #fill(key: string, hold: HoldQemu): Promise<void> {
    if (this.#isClosed || this.#filling.has(key) || this.#ready.some((spare) => spare.key === key)) return
    this.#filling.add(key)
    try {
      this.#ready.push({ key, held: await holdQemu(this.#host, hold) })
      for (const spare of this.#ready.splice(0, this.#ready.length - SPARES_MAX)) await this.#discard(spare)
    } catch (error) {
      // The next caller of `take` starts its own, and gets the error.
      this.#host.failures.report('spare', error, {}, 'a spare virtual machine was not made')
    } finally {
      this.#filling.delete(key)
    }
  }

  async #discard({ held }: Spare): Promise<void> {
    const { paths, first, link, qmp } = held
    link.close()
    qmp.close()
    await removeBurrow(this.#host, paths, first).catch((error: unknown) =>
      this.#host.failures.report('removal', error, { burrowId: paths.id }, 'a spare was not removed'),
    )
  }
}
