import { rm } from 'node:fs/promises'
import { allOf, Mutex } from '@dormouse/async'
import { type BurrowLimits, newSandboxId } from '@dormouse/contracts'
import { type Introduction, introduceBurrow } from '../burrow/introduce-burrow.ts'
import type { LaunchedBurrow } from '../burrow/launch-burrow.ts'
import { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { removeBurrow } from '../burrow/remove-burrow.ts'
import { canSetHostname, setHostname } from '../burrow/set-hostname.ts'
import { ShownLimits } from '../burrow/shown-limits.ts'
import { discardSpare, SPARE_LIMITS } from '../burrow/spare.ts'
import type { BurrowPaths } from '../host/layout.ts'
import { closeUnused, openGate } from '../network/open-gate.ts'
import { RecentCreates } from './recent-creates.ts'
import { type RestoreSource, restoreProcesses } from './restore-burrow.ts'
import type { SnapshotHost } from './snapshot-host.ts'

/** The template of a key may leave processes that never answer; other restores wait for their turn meanwhile. */
const ANSWER_TIMEOUT_MS = 5_000
/** Later than spares are made, because a reserved burrow needs one: wakes and forks get theirs first. */
const FILL_DELAY_MS = 300

export type Claim = Introduction & { readonly limits: BurrowLimits }

/** A create that happened, or is expected. */
interface Create {
  readonly source: RestoreSource
  /** `hasNetwork`: the server opened, or will open, the gate of its burrow. */
  readonly burrow: Pick<LinuxBurrow, 'hasNetwork'>
}

interface Reserved {
  readonly source: RestoreSource
  readonly burrow: LaunchedBurrow
}

/**
 * Burrows that were restored from templates ahead of need, and frozen before they were introduced. The reserve holds
 * one for each of the last creates, because the next create is likely to want the same: for the last two, and for the
 * last burst. Their records say `starting`, so the next server removes what this one leaves.
 */
export class Reserve implements AsyncDisposable {
  readonly #host: SnapshotHost
  readonly #withoutCollecting: <Value>(work: () => Promise<Value>) => Promise<Value>
  readonly #ready: Reserved[] = []
  readonly #recent = new RecentCreates<Create>()
  readonly #filling = new Mutex()
  #timer: NodeJS.Timeout | undefined
  #isFillPlanned = false
  #isClosed = false

  /**
   * `withoutCollecting` runs work while no file layer is collected: until a burrow has its record, nothing on disk says
   * which layers it uses.
   */
  constructor(host: SnapshotHost, withoutCollecting: <Value>(work: () => Promise<Value>) => Promise<Value>) {
    this.#host = host
    this.#withoutCollecting = withoutCollecting
  }

  /**
   * Gives a reserved burrow of this source to a sandbox. Undefined when there is none, or it could not be introduced.
   */
  async claim(source: RestoreSource, claim: Claim): Promise<LinuxBurrow | undefined> {
    const index = this.#ready.findIndex((reserved) => isSame(reserved.source, source))
    const [reserved] = index === -1 ? [] : this.#ready.splice(index, 1)
    if (reserved === undefined) return undefined
    try {
      return await this.#introduce(reserved.burrow, claim)
    } catch (error) {
      const fields = { sandboxId: claim.sandboxId, snapshotId: source.manifest.id }
      this.#host.failures.report('reserve', error, fields, 'a reserved burrow was not introduced')
      await this.#removeBurrow(reserved.burrow.paths)
      // The caller restores another one, and gets the error if that fails too.
      return undefined
    }
  }

  /** A burrow of this source was created, from the reserve or not, or is about to be. */
  expect(source: RestoreSource, burrow: Create['burrow']): void {
    // Upkeep may have made a new version of the snapshot since the former creates.
    this.#recent.change((create) => (isSame(create.source, source) ? { ...create, source } : create))
    this.#recent.add({ source, burrow })
    if (this.#isClosed || !canSetHostname()) return
    // Also while creates go on: they would use up the reserve.
    if (!this.#isFillPlanned) this.#planFill(FILL_DELAY_MS)
    this.#isFillPlanned = true
  }

  #planFill(delayMs: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#isFillPlanned = false
      void this.#filling.run(() => this.#fill())
    }, delayMs).unref()
  }

  /** Post: the reserve holds no burrow of these sources, until a create wants one again. */
  async forget(isMeant: (source: RestoreSource) => boolean): Promise<void> {
    const isKnown = [...this.#recent.wanted(), ...this.#ready].some(({ source }) => isMeant(source))
    if (!isKnown) return
    this.#recent.change((create) => (isMeant(create.source) ? undefined : create))
    await this.#filling.run(() => this.#fill())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#filling.run(() =>
      Promise.all(this.#ready.splice(0).map(({ burrow }) => this.#remove(burrow))),
    )
  }

  async #introduce(reserved: LaunchedBurrow, { limits, ...introduction }: Claim): Promise<LinuxBurrow> {
    const { first, cgroup, paths, gate } = reserved
    const { sandboxId } = introduction
    try {
      new ShownLimits(paths.limits, reserved.record.limits, { isFresh: true }).setLimits(limits)
      await allOf([
        setHostname(first, sandboxId),
        cgroup.applyToNew(limits, reserved.record.limits),
        rm(paths.spareMark),
      ])
      await cgroup.thaw()
    } catch (error) {
      if (gate !== undefined) closeUnused(gate)
      throw error
    }
    // From here on the gate belongs to the LinuxBurrow, which closes it when the introduction fails.
    const record = { ...reserved.record, sandboxId, limits, createdAt: new Date().toISOString() }
    return introduceBurrow(this.#host, { ...reserved, record }, introduction)
  }

  /** One burrow after the other: no caller waits for them. Never throws. */
  async #fill(): Promise<void> {
    for (const { burrow } of this.#takeUnwanted()) await this.#remove(burrow)
    for (;;) {
      const next = this.#findMissing()
      if (this.#isClosed || next === undefined) break
      const { source, burrow: last } = next
      try {
        this.#ready.push({ source, burrow: await this.#make(source, last) })
      } catch (error) {
        const fields = { snapshotId: source.manifest.id, template: source.template.name }
        this.#host.failures.report('reserve', error, fields, 'no burrow was restored ahead of need')
        // Not tried again: the next create restores its own, and gets the error.
        this.#recent.change((create) => (isSame(create.source, source) ? undefined : create))
      }
    }
    const shrinksInMs = this.#recent.shrinksInMs()
    if (shrinksInMs !== undefined && !this.#isClosed && !this.#isFillPlanned) this.#planFill(shrinksInMs)
  }

  /** Post: `#ready` has no unwanted burrow. */
  #takeUnwanted(): readonly Reserved[] {
    const wanted = [...this.#recent.wanted()]
    const unwanted: Reserved[] = []
    for (const reserved of this.#ready.splice(0)) {
      const index = wanted.findIndex(({ source }) => isSame(source, reserved.source))
      if (index === -1) unwanted.push(reserved)
      else this.#ready.push(reserved)
      if (index !== -1) wanted.splice(index, 1)
    }
    return unwanted
  }

  #findMissing(): Create | undefined {
    const ready = [...this.#ready]
    return this.#recent.wanted().find(({ source }) => {
      const index = ready.findIndex((reserved) => isSame(reserved.source, source))
      if (index !== -1) ready.splice(index, 1)
      return index === -1
    })
  }

  async #make(source: RestoreSource, { hasNetwork }: Create['burrow']): Promise<LaunchedBurrow> {
    const host = this.#host
    const restore = { ...source, sandboxId: newSandboxId(), limits: SPARE_LIMITS, volumes: [] }
    return this.#withoutCollecting(async () => {
      const spare = await host.spares.take({ keepsMark: true })
      try {
        const launched = await restoreProcesses(host, spare, restore)
        await warmUp(new LinuxBurrow(host, launched))
        const gate = hasNetwork ? await this.#openGate(launched) : undefined
        return { ...launched, gate }
      } catch (error) {
        await discardSpare(spare, host.hierarchies)
        throw error
      }
    })
  }

  /** Without a prepared gate the server opens one, and gets the error if that fails. */
  #openGate({ first, record }: LaunchedBurrow) {
    return openGate(first).catch((error: unknown) => {
      this.#host.failures.report(
        'reserve',
        error,
        { burrowId: record.id },
        'no gate was opened ahead of need',
      )
      return undefined
    })
  }

  async #remove({ gate, paths }: LaunchedBurrow): Promise<void> {
    if (gate !== undefined) closeUnused(gate)
    await this.#removeBurrow(paths)
  }

  /** Never throws: the next server removes what cannot be removed now. */
  async #removeBurrow(paths: BurrowPaths): Promise<void> {
    const { hierarchies, failures } = this.#host
    await removeBurrow(paths, hierarchies).catch((error: unknown) =>
      failures.report('removal', error, { burrowId: paths.id }, 'a reserved burrow was not removed'),
    )
  }
}

/** Lets agent and kernel do what they do only for their first call, then freezes them. */
async function warmUp(burrow: LinuxBurrow): Promise<void> {
  try {
    await burrow.guest.contexts.preload([], { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })
    await burrow.freeze()
  } finally {
    burrow.release()
  }
}

function isSame(one: RestoreSource, other: RestoreSource): boolean {
  return one.manifest.id === other.manifest.id && one.toolsDir === other.toolsDir
}
