import type { ServerClock } from '../clock/server-clock.ts'
import type { Log } from '../log.ts'
import type { DiskWatch } from './disk-watch.ts'
import type { Sandbox } from './sandbox.ts'
import type { Sandboxes } from './sandboxes.ts'
import { untilExpiry, untilSleep, untilStored } from './why.ts'

export interface IdleWatchOptions {
  readonly sandboxes: Sandboxes
  readonly disk: DiskWatch
  readonly freeMemoryBytes: () => Promise<number>
  /** With less free memory than this, frozen sandboxes are put on disk only. */
  readonly lowMemoryBytes: number
  readonly clock: ServerClock
  readonly log: Log
}

/** A sandbox goes to sleep at most this much late. */
const ROUND_MS = 500
/** Processes that use more than this share of a CPU are work. An idle program that polls twice a second uses less. */
const BUSY_CPU_SHARE = 0.02

/** Puts idle sandboxes to standby, frozen ones on disk, and deletes expired ones. Checks all of them twice a second. */
export class IdleWatch implements Disposable {
  readonly #options: IdleWatchOptions
  /** The CPU use of sandboxes whose processes work by themselves. */
  readonly #cpuWork = new WeakMap<Sandbox, Disposable>()
  /** Sandboxes that this watch is acting on. */
  readonly #acting = new Set<Sandbox>()
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: IdleWatchOptions) {
    this.#options = options
    this.#scheduleRound()
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #scheduleRound(): void {
    if (this.#isClosed) return
    this.#timer = setTimeout(() => {
      this.#round()
        .catch((error: unknown) =>
          this.#options.log.error({ err: error }, 'a round of the idle watch failed'),
        )
        .finally(() => this.#scheduleRound())
    }, ROUND_MS)
    this.#timer.unref()
  }

  async #round(): Promise<void> {
    const { sandboxes, disk, clock, freeMemoryBytes, lowMemoryBytes, log } = this.#options
    clock.look()
    void disk.round().catch((error: unknown) => log.error({ err: error }, 'a round of the disk watch failed'))
    const isMemoryLow = (await freeMemoryBytes()) < lowMemoryBytes
    const running = [...sandboxes.all()].filter(({ row }) => row.state === 'running')
    await Promise.all(running.map((sandbox) => this.#sample(sandbox)))
    for (const sandbox of sandboxes.all()) this.#decide(sandbox, isMemoryLow)
  }

  #decide(sandbox: Sandbox, isMemoryLow: boolean): void {
    const { row, pendingWrites } = sandbox
    if (row.state !== 'running') this.#cpuWork.get(sandbox)?.[Symbol.dispose]()
    if (this.#acting.has(sandbox) || sandbox.lock.isWriting) return
    if (isDue(untilExpiry(sandbox)) && !sandbox.isDeleted) {
      this.#act(sandbox, 'expire', () => sandbox.delete())
      return
    }
    if (!pendingWrites.isEmpty) {
      if (pendingWrites.isDue) this.#act(sandbox, 'record', () => sandbox.settle())
      return
    }
    if (isDue(untilSleep(sandbox))) {
      if (row.ephemeral) this.#act(sandbox, 'delete', () => sandbox.delete())
      else {
        const tier = isMemoryLow || row.storeAfterMs === 0 ? 'stored' : 'frozen'
        this.#act(sandbox, 'standby', () => sandbox.standby({ tier, cause: 'idle' }))
      }
      return
    }
    if (row.tier !== 'frozen') return
    const isStoreDue = isDue(untilStored(sandbox))
    if (!isStoreDue && !isMemoryLow) return
    const cause = isStoreDue ? 'store_after' : 'memory'
    this.#act(sandbox, 'store', () => sandbox.standby({ tier: 'stored', cause }))
  }

  #act(sandbox: Sandbox, action: string, act: () => Promise<unknown>): void {
    this.#acting.add(sandbox)
    act()
      .catch((error: unknown) =>
        this.#options.log.warn(
          { sandboxId: sandbox.id, action, err: error },
          'the idle watch could not act on a sandbox',
        ),
      )
      .finally(() => this.#acting.delete(sandbox))
  }

  async #sample(sandbox: Sandbox): Promise<void> {
    const share = await sandbox.sample()
    this.#cpuWork.get(sandbox)?.[Symbol.dispose]()
    this.#cpuWork.delete(sandbox)
    // The CPU time of calls and runs is already counted as their work.
    if (share === undefined || share < BUSY_CPU_SHARE || sandbox.work.isBusy) return
    const work = sandbox.work.begin('cpu', `processes that use ${Math.round(share * 100)} % of a CPU`)
    this.#cpuWork.set(sandbox, work)
  }
}

function isDue(leftMs: number | undefined): boolean {
  return leftMs !== undefined && leftMs <= 0
}
