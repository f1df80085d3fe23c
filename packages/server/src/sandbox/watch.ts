import type { LiveSandbox } from './live-sandbox.ts'
import type { SandboxBody } from './sandbox-body.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import type { DiskWatch } from './watch-disk.ts'
import { untilExpiry, untilSleep, untilStored } from './why.ts'

export interface WatchOptions {
  readonly registry: SandboxRegistry
  readonly disk: DiskWatch
  readonly freeMemoryBytes: () => Promise<number>
  /** Below this, what is frozen is put on disk only. */
  readonly lowMemoryBytes: number
}

/** How often is looked. Sleeping comes at most this much late. */
const ROUND_MS = 500
/** A sandbox whose processes use more than this share of a CPU is at work. An idle server that polls twice a second uses less. */
const BUSY_CPU_SHARE = 0.02
/** Puts sandboxes to sleep, to disk, and to an end, when their time has come. */
export class Watch implements Disposable {
  readonly #options: WatchOptions
  readonly #working = new WeakMap<SandboxBody, Disposable>()
  readonly #inHand = new Set<SandboxBody>()
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: WatchOptions) {
    this.#options = options
    this.#again()
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #again(): void {
    if (this.#isClosed) return
    this.#timer = setTimeout(() => {
      this.#round()
        .catch((error: unknown) => this.#log.error({ err: error }, 'a round of the watch failed'))
        .finally(() => this.#again())
    }, ROUND_MS)
    this.#timer.unref()
  }

  get #log() {
    return this.#options.registry.parts.log
  }

  async #round(): Promise<void> {
    const { registry, freeMemoryBytes, lowMemoryBytes } = this.#options
    registry.parts.clock.look()
    void this.#options.disk
      .round()
      .catch((error: unknown) => this.#log.error({ err: error }, 'a look at the disk failed'))
    const isMemoryLow = (await freeMemoryBytes()) < lowMemoryBytes
    const live = [...registry.all()].filter(({ body }) => body.row.state === 'running')
    await Promise.all(live.map(({ body }) => this.#sample(body)))
    for (const sandbox of registry.all()) this.#decide(sandbox, isMemoryLow)
  }

  #decide(sandbox: LiveSandbox, isMemoryLow: boolean): void {
    const { body } = sandbox
    const { row } = body
    if (row.state !== 'running') this.#working.get(body)?.[Symbol.dispose]()
    if (this.#inHand.has(body) || body.turns.isChanging) return
    if (isTime(untilExpiry(body)) && !body.isDeleted) {
      this.#do(body, 'expire', () => sandbox.delete())
      return
    }
    if (!body.debts.isEmpty) {
      if (body.debts.isDue) this.#do(body, 'settle', () => sandbox.settle())
      return
    }
    if (isTime(untilSleep(body))) {
      if (row.ephemeral) this.#do(body, 'delete', () => sandbox.delete())
      else {
        const tier = isMemoryLow || row.storeAfterMs === 0 ? 'stored' : 'frozen'
        this.#do(body, 'standby', () => sandbox.standby({ tier, cause: 'idle' }))
      }
      return
    }
    if (row.tier !== 'frozen') return
    if (isTime(untilStored(body)))
      this.#do(body, 'store', () => sandbox.standby({ tier: 'stored', cause: 'store_after' }))
    else if (isMemoryLow) this.#do(body, 'store', () => sandbox.standby({ tier: 'stored', cause: 'memory' }))
  }

  #do(body: SandboxBody, what: string, act: () => Promise<unknown>): void {
    this.#inHand.add(body)
    act()
      .catch((error: unknown) => this.#log.warn({ sandboxId: body.id, what, err: error }, 'the watch failed'))
      .finally(() => this.#inHand.delete(body))
  }

  /** Notes whether its processes work by themselves. */
  async #sample(body: SandboxBody): Promise<void> {
    const share = await body.sample()
    this.#working.get(body)?.[Symbol.dispose]()
    this.#working.delete(body)
    // What calls and runs use is their work already.
    if (share === undefined || share < BUSY_CPU_SHARE || body.work.isBusy) return
    const work = body.work.begin('cpu', `processes that use ${Math.round(share * 100)} % of a CPU`)
    this.#working.set(body, work)
  }
}

function isTime(leftMs: number | undefined): boolean {
  return leftMs !== undefined && leftMs <= 0
}
