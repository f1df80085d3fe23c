import { isSandboxId, type SandboxId } from '@dormouse/contracts'
import type { DeniedAnswer, NetworkReportAnswer } from '@dormouse/contracts/http'
import type { ServerClock } from '../clock/server-clock.ts'
import type { NewLedgerEntry } from '../store/ledger-rows.ts'

export interface DenialHistoryOptions {
  /** Writes entries of any number of sandboxes at once. */
  readonly record: (entries: readonly { readonly id: SandboxId; readonly entry: NewLedgerEntry }[]) => void
  readonly clock: Pick<ServerClock, 'wallMs' | 'monotonicMs'>
}

/** The ledger is on disk, and a sandbox may try a thousand names a second. */
const FLUSH_MS = 2_000
/** Different ones that wait for the ledger; what comes beyond is counted only. */
const WAITING_MAX = 20
const RECENT_MAX = 50
/** Entries that a sandbox gets at once, and then one a minute: it must not push its own history out of the ledger. */
const BURST = 40
const ENTRY_EVERY_MS = 60_000

interface Waiting {
  readonly denials: Map<string, DeniedAnswer>
  others: number
}

/** What policies refused: the last of each sandbox in memory, and in the ledger as much as it can bear. */
export class DenialHistory implements Disposable {
  readonly #options: DenialHistoryOptions
  readonly #recent = new Map<SandboxId, NetworkReportAnswer['denied'][number][]>()
  readonly #waiting = new Map<SandboxId, Waiting>()
  readonly #allowance = new Map<SandboxId, { entries: number; at: number }>()
  readonly #timer: NodeJS.Timeout

  constructor(options: DenialHistoryOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.flush(), FLUSH_MS).unref()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.flush()
  }

  add(sandboxId: string, denied: DeniedAnswer): void {
    if (!isSandboxId(sandboxId)) return
    const key = keyOf(denied)
    const waiting = this.#waiting.get(sandboxId) ?? { denials: new Map(), others: 0 }
    this.#waiting.set(sandboxId, waiting)
    const earlier = waiting.denials.get(key)
    if (earlier !== undefined || waiting.denials.size < WAITING_MAX)
      waiting.denials.set(key, { ...denied, count: denied.count + (earlier?.count ?? 0) })
    else waiting.others += denied.count
    this.#remember(sandboxId, denied)
  }

  /** Newest first. */
  recent(id: SandboxId): readonly NetworkReportAnswer['denied'][number][] {
    return this.#recent.get(id) ?? []
  }

  forget(id: SandboxId): void {
    this.#recent.delete(id)
    this.#waiting.delete(id)
    this.#allowance.delete(id)
  }

  /** Writes what may be written now; the rest waits. */
  flush(): void {
    const entries = [...this.#waiting].flatMap(([id, waiting]) =>
      this.#take(id, waiting).map((denied) => ({ id, entry: entryOf(denied) })),
    )
    if (entries.length > 0) this.#options.record(entries)
  }

  #take(id: SandboxId, waiting: Waiting): DeniedAnswer[] {
    let left = this.#refill(id)
    const taken: DeniedAnswer[] = []
    for (const [key, denied] of waiting.denials) {
      if (left < 1) break
      left -= 1
      waiting.denials.delete(key)
      taken.push(denied)
    }
    if (waiting.others > 0 && left >= 1) {
      left -= 1
      taken.push({ protocol: 'tcp', reason: 'more that were different', count: waiting.others })
      waiting.others = 0
    }
    if (waiting.denials.size === 0 && waiting.others === 0) this.#waiting.delete(id)
    this.#allowance.set(id, { entries: left, at: this.#options.clock.monotonicMs() })
    return taken
  }

  #refill(id: SandboxId): number {
    const { entries, at } = this.#allowance.get(id) ?? {
      entries: BURST,
      at: this.#options.clock.monotonicMs(),
    }
    return Math.min(BURST, entries + (this.#options.clock.monotonicMs() - at) / ENTRY_EVERY_MS)
  }

  #remember(id: SandboxId, denied: DeniedAnswer): void {
    const recent = this.#recent.get(id) ?? []
    const key = keyOf(denied)
    const earlier = recent.find((other) => keyOf(other) === key)
    const at = new Date(this.#options.clock.wallMs()).toISOString()
    const view = { ...denied, at, count: denied.count + (earlier?.count ?? 0) }
    const others = recent.filter((other) => other !== earlier)
    this.#recent.set(id, [view, ...others].slice(0, RECENT_MAX))
  }
}

function keyOf({ protocol, name, address, port, reason }: DeniedAnswer): string {
  return JSON.stringify([protocol, name, address, port, reason])
}

function entryOf(denied: DeniedAnswer): NewLedgerEntry {
  const { name, address, port, reason, count } = denied
  const where = name ?? address
  const to = where === undefined ? '' : ` to ${where}${port === undefined ? '' : ` port ${port}`}`
  const often = count === 1 ? '' : `, ${count} times`
  return { event: 'denied', cause: 'network', detail: `Refused${to}: ${reason}${often}.`, denied }
}
