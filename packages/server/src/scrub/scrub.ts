import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError, hasErrorCode, type SnapshotId } from '@dormouse/contracts'
import type { Engine, StoredPart } from '@dormouse/engine'
import type { Log } from '../log.ts'
import type { QuarantineRows } from '../store/quarantine-rows.ts'
import type { ScrubPass, ScrubRows } from '../store/scrub-rows.ts'
import type { Quarantine } from './quarantine.ts'
import type { ScrubView } from './scrub-view.ts'

export interface ScrubOptions {
  /** From the end of one pass to the start of the next. 0: passes start only on request. */
  readonly periodMs: number
  readonly bytesPerSecond: number
  /** From a standby to the check of its snapshot. By then, a busy sandbox is awake again and upkeep is done. */
  readonly delayMs: number
}

export interface ScrubParts {
  readonly engine: Engine
  readonly rows: ScrubRows
  readonly damaged: QuarantineRows
  readonly quarantine: Quarantine
  readonly options: ScrubOptions
  /** Burrows are being started, or wait for their start. */
  readonly isBusy: () => boolean
  /** Called with snapshots that are found damaged for the first time. */
  readonly onDamage: (snapshots: readonly SnapshotId[], reason: string) => void
  readonly now: () => number
  readonly log: Log
}

/** How often it checks whether a pass or a snapshot is due. */
const ROUND_MS = 1_000
/** On a host that is always busy, a part is read after this time, at idle priority and at the limited rate. */
const BUSY_MAX_MS = 60_000
/** Delay after a start: sandboxes that waited for the server come first, and a starting host reads much else. */
const AFTER_START_MS = 10 * 60_000
/** Pause after an error of the disk. */
const RETRY_MS = 60_000

/**
 * Reads everything stored in the background and puts damaged snapshots and templates into quarantine. Reads one part
 * at a time, at idle priority and a limited rate. New snapshots are read soon after they are taken. A pass continues
 * after a restart.
 */
export class Scrub implements AsyncDisposable {
  readonly #parts: ScrubParts
  readonly #closing = new AbortController()
  /** When each new snapshot is to be checked. */
  readonly #soon = new Map<SnapshotId, number>()
  readonly #openedAt = performance.now()
  readonly #working: Promise<void>
  #retryAt = 0
  #progress: ScrubView['progress']

  constructor(parts: ScrubParts) {
    this.#parts = parts
    this.#working = this.#work()
  }

  /** Schedules a check of the new parts of a snapshot. */
  soon(id: SnapshotId | undefined): void {
    if (id !== undefined && !this.#soon.has(id))
      this.#soon.set(id, performance.now() + this.#parts.options.delayMs)
  }

  /** Starts a pass, unless one is under way. */
  start(): ScrubView {
    if (!this.#isPassUnderWay) {
      this.#parts.rows.begin(this.#parts.now())
      this.#progress = undefined
    }
    this.#retryAt = 0
    return this.view()
  }

  view(): ScrubView {
    const { rows, damaged } = this.#parts
    const { beganAt, finishedAt, readBytes } = rows.pass()
    return {
      state: this.#isPassUnderWay ? 'running' : 'idle',
      progress: this.#isPassUnderWay ? this.#progress : undefined,
      beganAt: isoTime(beganAt),
      finishedAt: isoTime(finishedAt),
      readBytes,
      damagedSnapshots: damaged
        .snapshots()
        .map(({ foundAt, ...rest }) => ({ ...rest, foundAt: iso(foundAt) })),
      damagedTemplates: damaged
        .templates()
        .map(({ foundAt, ...rest }) => ({ ...rest, foundAt: iso(foundAt) })),
    }
  }

  /** Stops reading. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new DormouseError('cancelled', 'The server is ending.'))
    await this.#working
  }

  get #isPassUnderWay(): boolean {
    return isUnderWay(this.#parts.rows.pass())
  }

  get #isPassDue(): boolean {
    const { rows, options, now } = this.#parts
    const { beganAt, finishedAt } = rows.pass()
    if (isUnderWay({ beganAt, finishedAt })) return true
    if (performance.now() - this.#openedAt < AFTER_START_MS) return false
    return options.periodMs > 0 && now() - (finishedAt ?? 0) >= options.periodMs
  }

  async #work(): Promise<void> {
    const { signal } = this.#closing
    while (!signal.aborted) {
      try {
        await this.#checkNew()
        if (this.#isPassDue && performance.now() >= this.#retryAt) await this.#pass()
      } catch (error) {
        if (signal.aborted) return
        this.#retryAt = performance.now() + RETRY_MS
        this.#parts.log.error({ err: error }, 'the scrub was interrupted; it continues in a minute')
      }
      // Rejects when the server stops.
      await sleep(ROUND_MS, undefined, { signal, ref: false }).catch(() => {})
    }
  }

  async #pass(): Promise<void> {
    const { engine, rows, quarantine, damaged, now, log } = this.#parts
    if (!this.#isPassUnderWay) rows.begin(now())
    const beganAt = rows.pass().beganAt ?? now()
    const all = await engine.listParts()
    const isDone = ({ key }: Pick<StoredPart, 'key'>) => (rows.find(key)?.checkedAt ?? -1) >= beganAt
    const left = all.filter((part) => !isDone(part))
    let checked = all.length - left.length
    this.#progress = { parts: all.length, checkedParts: checked }
    for (const part of left) {
      await this.#tryCheck(part)
      checked += 1
      this.#progress = { parts: all.length, checkedParts: checked }
      await this.#checkNew()
    }
    // Includes snapshots that were added meanwhile.
    const parts = await engine.listParts()
    const keys = new Set(parts.map(({ key }) => key))
    rows.finish(now(), keys)
    quarantine.keepParts(keys)
    const isWhole = ({ key }: StoredPart) => isDone({ key }) && rows.find(key)?.damage === undefined
    for (const { snapshotId } of damaged.snapshots()) {
      const own = parts.filter(({ snapshots }) => snapshots.includes(snapshotId))
      if (own.length > 0 && own.every(isWhole)) quarantine.liftVerified(snapshotId)
    }
    log.info({ parts: all.length, damaged: damaged.snapshots().length }, 'a pass of the scrub is complete')
  }

  /** Checks new snapshots that are due. */
  async #checkNew(): Promise<void> {
    for (const [id, at] of [...this.#soon]) {
      if (at > performance.now()) continue
      this.#soon.delete(id)
      await this.#checkSnapshot(id).catch((error: unknown) => {
        // It was deleted meanwhile, or its manifest is unreadable, which a wake reports by itself.
        if (!hasErrorCode(error, 'not_found') && !hasErrorCode(error, 'snapshot_unusable')) throw error
      })
    }
  }

  /** Skips parts that were read with other snapshots, and takes over their damage. */
  async #checkSnapshot(id: SnapshotId): Promise<void> {
    const { engine, rows } = this.#parts
    for (const part of await engine.listParts(id)) {
      const known = rows.find(part.key)
      if (known === undefined) await this.#tryCheck(part)
      else if (known.damage !== undefined) this.#quarantine(part, known.damage)
    }
  }

  /** A part that cannot be checked does not stop the scrub. The next pass tries again. */
  async #tryCheck(part: StoredPart): Promise<void> {
    try {
      await this.#check(part)
    } catch (error) {
      this.#closing.signal.throwIfAborted()
      this.#parts.log.warn({ part: part.key, err: error }, 'a stored part could not be checked')
    }
  }

  async #check(part: StoredPart): Promise<void> {
    const { engine, rows, quarantine, options, now } = this.#parts
    const { signal } = this.#closing
    await this.#untilIdle()
    const checkedAt = now()
    const { bytesPerSecond } = options
    const { damage, readBytes } = await engine.checkPart(part, { bytesPerSecond, signal })
    signal.throwIfAborted()
    if (damage === undefined) {
      rows.checked({ key: part.key, checkedAt, damage }, readBytes)
      quarantine.lift([part])
      return
    }
    // A part that was deleted or replaced while it was read looks damaged. Ask again which snapshots share it.
    const still = (await engine.listParts()).find(({ key }) => key === part.key)
    if (still === undefined) return
    rows.checked({ key: part.key, checkedAt, damage }, readBytes)
    this.#quarantine(still, damage)
  }

  #quarantine(part: StoredPart, damage: string): void {
    const { quarantine, onDamage, log } = this.#parts
    const found = quarantine.add(part, damage)
    if (found.length > 0 || part.templates.length > 0)
      log.error(
        { part: part.key, damage, snapshots: found, templates: part.templates },
        'a stored part is damaged',
      )
    if (found.length > 0) onDamage(found, damage)
  }

  async #untilIdle(): Promise<void> {
    const { isBusy } = this.#parts
    const { signal } = this.#closing
    const deadline = performance.now() + BUSY_MAX_MS
    while (isBusy() && performance.now() < deadline) await sleep(ROUND_MS, undefined, { signal, ref: false })
  }
}

function isUnderWay({ beganAt, finishedAt }: Pick<ScrubPass, 'beganAt' | 'finishedAt'>): boolean {
  return beganAt !== undefined && (finishedAt === undefined || finishedAt < beganAt)
}

function iso(ms: number): string {
  return new Date(ms).toISOString()
}

function isoTime(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : iso(ms)
}
