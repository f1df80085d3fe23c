import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ServerClock } from '../clock/server-clock.ts'
import type { Log } from '../log.ts'
import { Agenda } from './agenda.ts'
import type { DiskWatch } from './disk-watch.ts'
import type { FrozenMemory } from './frozen-memory.ts'
import type { Sandbox } from './sandbox.ts'
import type { Sandboxes } from './sandboxes.ts'
import { TimerWakes } from './timer-wakes.ts'
import { pauseAtLimit } from './transitions/pause-at-limit.ts'
import { standbyAtExpiry } from './transitions/standby-at-expiry.ts'
import { untilExpiry, untilSleep, untilStored } from './why.ts'

export interface IdleWatchOptions {
  readonly sandboxes: Sandboxes
  readonly disk: DiskWatch
  readonly frozenMemory: FrozenMemory
  readonly freeMemoryBytes: () => Promise<number>
  /** With less free memory than this, new standbys go to disk, and frozen sandboxes give back what is missing. */
  readonly lowMemoryBytes: number
  /** The server puts all sandboxes to standby and ends. */
  readonly isEnding: () => boolean
  readonly clock: ServerClock
  readonly log: Log
}

/** A sandbox goes to sleep at most this much late. */
const ROUND_MS = 500
/** While all sleep and nothing is due: so long until a clock that was set or a lack of memory is noticed. */
const ASLEEP_ROUND_MS = 2_000
/** Measuring one takes the main thread about a tenth of a millisecond. Calls may come in between. */
const SAMPLED_AT_ONCE = 16
/** Processes that use more than this share of a CPU are work. An idle program that polls twice a second uses less. */
const BUSY_CPU_SHARE = 0.02

/**
 * Puts idle sandboxes to standby, frozen ones on disk, wakes those whose timers are due, takes checkpoints, and deletes
 * expired ones or puts them to standby. Checks those that are awake twice a second, and those that sleep when something
 * is due. Rests while all sleep.
 */
export class IdleWatch implements Disposable {
  readonly #options: IdleWatchOptions
  /** The CPU use of sandboxes whose processes work by themselves. */
  readonly #cpuWork = new Map<Sandbox, Disposable>()
  /** Their last sample does not tell whether their processes work by themselves. They stay awake until the next. */
  readonly #unjudged = new WeakSet<Sandbox>()
  /** Sandboxes that this watch is acting on. */
  readonly #acting = new Set<Sandbox>()
  readonly #timers = new TimerWakes()
  readonly #agenda: Agenda
  #timer: NodeJS.Timeout | undefined
  #isResting = false
  #isClosed = false

  constructor(options: IdleWatchOptions) {
    this.#options = options
    this.#agenda = new Agenda(options.clock)
    options.sandboxes.onChange = () => this.#endRest()
    this.#scheduleRound()
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    this.#options.sandboxes.onChange = undefined
    clearTimeout(this.#timer)
  }

  /** A sandbox has changed: it may be awake, or due earlier. */
  #endRest(): void {
    if (!this.#isResting) return
    clearTimeout(this.#timer)
    this.#scheduleRound()
  }

  #scheduleRound(): void {
    if (this.#isClosed) return
    const { sandboxes } = this.#options
    const restMs = sandboxes.isQuiet ? Math.min(ASLEEP_ROUND_MS, this.#agenda.untilNextMs) : 0
    this.#isResting = restMs > ROUND_MS
    this.#timer = setTimeout(
      () => {
        this.#isResting = false
        this.#round()
          .catch((error: unknown) =>
            this.#options.log.error({ err: error }, 'a round of the idle watch failed'),
          )
          .finally(() => this.#scheduleRound())
      },
      Math.max(ROUND_MS, restMs),
    )
    this.#timer.unref()
  }

  async #round(): Promise<void> {
    const { sandboxes, disk, clock, frozenMemory, freeMemoryBytes, lowMemoryBytes, log } = this.#options
    clock.look()
    void disk.round().catch((error: unknown) => log.error({ err: error }, 'a round of the disk watch failed'))
    const missingBytes = lowMemoryBytes - (await freeMemoryBytes())
    const running = [...sandboxes.awake()].filter(({ row }) => row.state === 'running')
    for (let at = 0; at < running.length; at += SAMPLED_AT_ONCE) {
      await Promise.all(running.slice(at, at + SAMPLED_AT_ONCE).map((sandbox) => this.#sample(sandbox)))
      await nextTurn()
    }
    for (const sandbox of this.#cpuWork.keys()) if (sandbox.row.state !== 'running') this.#endCpuWork(sandbox)
    for (const sandbox of [...sandboxes.awake()]) this.#decide(sandbox, missingBytes > 0)
    this.#lookAtSleeping(missingBytes > 0)
    for (const sandbox of frozenMemory.excess(sandboxes.frozen(), missingBytes))
      this.#store(sandbox, 'memory')
  }

  #lookAtSleeping(isMemoryLow: boolean): void {
    const { sandboxes } = this.#options
    for (const sandbox of sandboxes.takeChanged())
      if (sandboxes.find(sandbox.id) === sandbox) this.#agenda.put(sandbox)
      else this.#agenda.remove(sandbox)
    for (const sandbox of this.#agenda.takeDue()) {
      this.#decide(sandbox, isMemoryLow)
      this.#agenda.put(sandbox)
    }
  }

  #decide(sandbox: Sandbox, isMemoryLow: boolean): void {
    const { row, pendingWrites } = sandbox
    if (this.#acting.has(sandbox) || sandbox.lock.isWriting) return
    if (isDue(untilExpiry(sandbox)) && !sandbox.isDeleted) {
      this.#act(sandbox, 'expire', () => expire(sandbox))
      return
    }
    if (!pendingWrites.isEmpty) {
      if (pendingWrites.isDue) this.#act(sandbox, 'record', () => sandbox.settle())
      return
    }
    if (row.state === 'running' && sandbox.memory.isWaiting && !isRefusedNow(sandbox)) {
      this.#act(sandbox, 'pause', () => pauseAtLimit(sandbox))
      return
    }
    if (isDue(untilSleep(sandbox)) && !this.#unjudged.has(sandbox)) {
      this.#act(sandbox, 'standby', () => retire(sandbox, isMemoryLow))
      return
    }
    if (sandbox.checkpoints.isDue && !this.#options.isEnding()) {
      this.#act(sandbox, 'checkpoint', () => sandbox.checkpoints.take())
      return
    }
    if (this.#timers.isDue(sandbox) && !this.#options.isEnding()) {
      this.#act(sandbox, 'wake', () => this.#timers.wake(sandbox))
      return
    }
    if (isDue(untilStored(sandbox))) this.#store(sandbox, 'store_after')
  }

  #store(sandbox: Sandbox, cause: 'store_after' | 'memory'): void {
    if (this.#acting.has(sandbox) || sandbox.lock.isWriting || !sandbox.pendingWrites.isEmpty) return
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
    const use = await sandbox.sample()
    this.#endCpuWork(sandbox)
    this.#unjudged.delete(sandbox)
    // The CPU time of calls and runs is already counted as their work.
    if (use === undefined || use.share < BUSY_CPU_SHARE || sandbox.work.isBusy) return
    if (!use.isOwn) {
      this.#unjudged.add(sandbox)
      return
    }
    const work = sandbox.work.begin('cpu', `processes that use ${Math.round(use.share * 100)} % of a CPU`)
    this.#cpuWork.set(sandbox, work)
  }

  #endCpuWork(sandbox: Sandbox): void {
    this.#cpuWork.get(sandbox)?.[Symbol.dispose]()
    this.#cpuWork.delete(sandbox)
  }
}

/** Background processes count as use. They keep a sandbox that expires when idle. */
async function expire(sandbox: Sandbox): Promise<void> {
  await sandbox.background.check()
  if (!isDue(untilExpiry(sandbox))) return
  if (sandbox.row.expires?.action !== 'standby') await sandbox.delete()
  else if (!isRefusedNow(sandbox)) await standbyAtExpiry(sandbox)
}

/** Puts an idle sandbox to sleep unless it has background processes. */
async function retire(sandbox: Sandbox, isMemoryLow: boolean): Promise<void> {
  await sandbox.background.check()
  const { row, work } = sandbox
  if (work.isBusy) return
  const tier = isMemoryLow || row.storeAfterMs === 0 ? 'stored' : 'frozen'
  await sandbox.standby({ tier, cause: 'idle' })
}

/** The last attempt to save it was refused, and it is too early for the next. */
function isRefusedNow({ refusal, deps }: Sandbox): boolean {
  return refusal !== undefined && refusal.retryAtMs > deps.clock.monotonicMs()
}

function isDue(leftMs: number | undefined): boolean {
  return leftMs !== undefined && leftMs <= 0
}
