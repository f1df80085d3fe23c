import { rm } from 'node:fs/promises'
import { burrowLimitsSchema, newSandboxId } from '@dormouse/contracts'
import { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { removeBurrow } from '../burrow/remove-burrow.ts'
import { canSetHostname, setHostname } from '../burrow/set-hostname.ts'
import { type BurrowHost, type FilledBurrow, fillBurrow, introduceBurrow } from '../burrow/start-burrow.ts'
import { allOf } from '../host/settle-all.ts'
import { closeUnused, openGate } from '../network/open-gate.ts'
import {
  type FillFromSnapshot,
  fillingFrom,
  introducing,
  type RestoreSnapshot,
  type WhoWakes,
} from './restore-snapshot.ts'

/** Two creates in a row do not wait for CRIU; each takes about eight megabytes. */
const KEPT = 2
/** What is restored was prepared by somebody's template, and need not answer; others wait for their turn meanwhile. */
const ANSWER_TIMEOUT_MS = 5_000
/** Later than spares are made, of which one is needed: whoever wakes or forks comes first. */
const FILL_DELAY_MS = 300

/** The snapshot that sandboxes of a template start from. */
export type Origin = Pick<FillFromSnapshot, 'paths' | 'manifest' | 'template' | 'toolsDir'>

type WhileLayersStay = <Value>(fill: () => Promise<Value>) => Promise<Value>

export type Claim = WhoWakes & Required<Pick<RestoreSnapshot, 'limits'>>

/** What is known of a create that was, or is about to be. */
interface Created {
  readonly origin: Origin
  /** Whether somebody lets it out. */
  readonly burrow: Pick<LinuxBurrow, 'hasNetwork'>
}

interface Reserved {
  readonly origin: Origin
  readonly burrow: FilledBurrow
}

/**
 * Burrows that were restored from templates ahead of need, and frozen before they were told who they are. What was asked for last is
 * what will be asked for next: for each of the last creates there is one. Their records say `starting`, so the next server removes what
 * this one leaves.
 */
export class Reserve implements AsyncDisposable {
  readonly #host: BurrowHost
  readonly #whileLayersStay: WhileLayersStay
  readonly #waiting: Reserved[] = []
  /** The last creates, the latest first. */
  #recent: readonly Created[] = []
  #filling: Promise<void> = Promise.resolve()
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  /** `whileLayersStay` runs something while no file layer is collected: until one that is filled has a record, nothing tells what it stands on. */
  constructor(host: BurrowHost, whileLayersStay: WhileLayersStay) {
    this.#host = host
    this.#whileLayersStay = whileLayersStay
  }

  /** A burrow of that origin that is the claimer's from now on; undefined when none is there, or it is not fit for it. */
  async claim(origin: Origin, claim: Claim): Promise<LinuxBurrow | undefined> {
    const index = this.#waiting.findIndex((each) => isSame(each.origin, origin))
    const [reserved] = index === -1 ? [] : this.#waiting.splice(index, 1)
    if (reserved === undefined) return undefined
    // Whatever is wrong with it: one that is restored now is right, or says why not.
    return this.#introduce(reserved.burrow, claim).catch(() => undefined)
  }

  /** One of this origin was created, one way or the other, or will be. */
  expect(origin: Origin, burrow: Created['burrow']): void {
    // Upkeep may have made a new version since the ones before.
    const former = this.#recent.map((one) => (isSame(one.origin, origin) ? { ...one, origin } : one))
    this.#recent = [{ origin, burrow }, ...former].slice(0, KEPT)
    clearTimeout(this.#timer)
    if (this.#isClosed || !canSetHostname()) return
    this.#timer = setTimeout(() => {
      this.#filling = this.#filling.then(() => this.#fill())
    }, FILL_DELAY_MS)
    this.#timer.unref()
  }

  /** Post: none of these waits, until one is asked for again. */
  async forget(isMeant: (origin: Origin) => boolean): Promise<void> {
    const isKnown = [...this.#recent, ...this.#waiting].some(({ origin }) => isMeant(origin))
    if (!isKnown) return
    this.#recent = this.#recent.filter(({ origin }) => !isMeant(origin))
    this.#filling = this.#filling.then(() => this.#fill())
    await this.#filling
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#filling
    await Promise.all(this.#waiting.splice(0).map(({ burrow }) => this.#remove(burrow)))
  }

  async #introduce(burrow: FilledBurrow, { limits, ...who }: Claim): Promise<LinuxBurrow> {
    const { sandboxId } = who
    const record = { ...burrow.record, sandboxId, limits, createdAt: new Date().toISOString() }
    try {
      await setHostname(burrow.first, sandboxId)
      await rm(burrow.paths.spareMark)
      await burrow.cgroup.thaw()
    } catch (error) {
      await this.#remove(burrow)
      throw error
    }
    const introduce = introducing(who)
    return introduceBurrow(this.#host, { ...burrow, record }, async (next) => {
      await allOf([introduce(next), burrow.cgroup.apply(limits)])
    })
  }

  /** One after the other: nobody waits for it. */
  async #fill(): Promise<void> {
    const { missing, unwanted } = this.#sortOut()
    for (const { burrow } of unwanted) await this.#remove(burrow)
    for (const { origin, burrow: last } of missing) {
      if (this.#isClosed) return
      const burrow = await this.#make(origin, last.hasNetwork).catch(() => undefined)
      if (burrow !== undefined) this.#waiting.push({ origin, burrow })
      // The next create makes its own, and reports why that fails.
      else this.#recent = this.#recent.filter((one) => !isSame(one.origin, origin))
    }
  }

  /** For whom there should be one more, and those that nobody is expected to ask for. */
  #sortOut(): { missing: Created[]; unwanted: Reserved[] } {
    const missing = [...this.#recent]
    const unwanted: Reserved[] = []
    for (const each of this.#waiting.splice(0)) {
      const index = missing.findIndex(({ origin }) => isSame(origin, each.origin))
      if (index === -1) unwanted.push(each)
      else this.#waiting.push(each)
      if (index !== -1) missing.splice(index, 1)
    }
    return { missing, unwanted }
  }

  async #make(origin: Origin, hasNetwork: boolean): Promise<FilledBurrow> {
    const { hierarchies } = this.#host
    const nobody = { sandboxId: newSandboxId(), limits: burrowLimitsSchema.parse({}), volumes: [] }
    const filled = await this.#whileLayersStay(async () => {
      const filling = await fillingFrom(this.#host, { ...origin, ...nobody })
      return fillBurrow(this.#host, { ...filling, isSpare: true })
    })
    const burrow = new LinuxBurrow({ ...filled, hierarchies })
    try {
      // What agent and kernel do for their first call, they have done when the next one comes.
      await burrow.guest.contexts.preload([], { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })
      await burrow.freeze()
      // Without it a sandbox opens its own, and says why that fails.
      const gate = hasNetwork ? await openGate(filled.first).catch(() => undefined) : undefined
      return { ...filled, gate }
    } catch (error) {
      await removeBurrow(filled.paths, hierarchies)
      throw error
    } finally {
      burrow.release()
    }
  }

  async #remove(burrow: FilledBurrow): Promise<void> {
    if (burrow.gate !== undefined) closeUnused(burrow.gate)
    // What cannot be removed now is removed by the next server.
    await removeBurrow(burrow.paths, this.#host.hierarchies).catch(() => {})
  }
}

function isSame(one: Origin, other: Origin): boolean {
  return one.manifest.id === other.manifest.id && one.toolsDir === other.toolsDir
}
