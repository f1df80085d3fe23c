import { TokenBucket } from '@dormouse/async'
import { isSandboxId, type SandboxId } from '@dormouse/contracts'
import type { DeniedAnswer, NetworkReportAnswer } from '@dormouse/contracts/http'
import type { ServerClock } from '../clock/server-clock.ts'
import type { NewLedgerEntry } from '../store/ledger-rows.ts'

export interface DenialHistoryOptions {
  /** Writes the entries of all sandboxes in one transaction. */
  readonly record: (entries: readonly { readonly id: SandboxId; readonly entry: NewLedgerEntry }[]) => void
  readonly clock: Pick<ServerClock, 'wallMs' | 'monotonicMs'>
}

/** Batches writes: a sandbox may look up a thousand names a second. */
const FLUSH_MS = 2_000
/** Distinct denials of one sandbox that wait for the ledger. Further ones are only counted. */
const WAITING_MAX = 20
const RECENT_MAX = 50
/** Ledger entries of one sandbox. More would push the rest of its history out of the ledger. */
const ENTRIES = { burst: 40, perSecond: 1 / 60 }

interface Waiting {
  readonly denials: Map<string, DeniedAnswer>
  others: number
}

/** Recent denials of each sandbox, in memory. Also writes them to the ledger, at a bounded rate. */
export class DenialHistory implements Disposable {
  readonly #options: DenialHistoryOptions
  readonly #recent = new Map<SandboxId, NetworkReportAnswer['denied'][number][]>()
  readonly #waiting = new Map<SandboxId, Waiting>()
  readonly #ledgerLimits = new Map<SandboxId, TokenBucket>()
  readonly #timer: NodeJS.Timeout

  constructor(options: DenialHistoryOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.flush(), FLUSH_MS).unref()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.flush()
  }

  add(sandboxId: string, denial: DeniedAnswer, ageMs = 0): void {
    if (!isSandboxId(sandboxId)) return
    const key = keyOf(denial)
    const waiting = this.#waiting.get(sandboxId) ?? { denials: new Map(), others: 0 }
    this.#waiting.set(sandboxId, waiting)
    const earlier = waiting.denials.get(key)
    if (earlier !== undefined || waiting.denials.size < WAITING_MAX)
      waiting.denials.set(key, { ...denial, count: denial.count + (earlier?.count ?? 0) })
    else waiting.others += denial.count
    this.#remember(sandboxId, denial, ageMs)
  }

  /** Newest first. */
  recent(id: SandboxId): readonly NetworkReportAnswer['denied'][number][] {
    return this.#recent.get(id) ?? []
  }

  forget(id: SandboxId): void {
    this.#recent.delete(id)
    this.#waiting.delete(id)
    this.#ledgerLimits.delete(id)
  }

  /** Writes as many denials as the rate limit allows; the rest waits for the next flush. */
  flush(): void {
    const entries = [...this.#waiting].flatMap(([id, waiting]) =>
      this.#take(id, waiting).map((denial) => ({ id, entry: entryOf(denial) })),
    )
    if (entries.length > 0) this.#options.record(entries)
  }

  #take(id: SandboxId, waiting: Waiting): DeniedAnswer[] {
    const limit = this.#ledgerLimit(id)
    const taken: DeniedAnswer[] = []
    for (const [key, denial] of waiting.denials) {
      if (limit.take() !== 0) break
      waiting.denials.delete(key)
      taken.push(denial)
    }
    if (waiting.others > 0 && limit.take() === 0) {
      taken.push({ protocol: 'tcp', reason: 'more of different kinds', count: waiting.others })
      waiting.others = 0
    }
    if (waiting.denials.size === 0 && waiting.others === 0) this.#waiting.delete(id)
    return taken
  }

  #ledgerLimit(id: SandboxId): TokenBucket {
    const limit =
      this.#ledgerLimits.get(id) ?? new TokenBucket(ENTRIES, () => this.#options.clock.monotonicMs())
    this.#ledgerLimits.set(id, limit)
    return limit
  }

  #remember(id: SandboxId, denial: DeniedAnswer, ageMs: number): void {
    const recent = this.#recent.get(id) ?? []
    const key = keyOf(denial)
    const earlier = recent.find((other) => keyOf(other) === key)
    const at = new Date(this.#options.clock.wallMs() - ageMs).toISOString()
    const view = { ...denial, at, count: denial.count + (earlier?.count ?? 0) }
    const others = recent.filter((other) => other !== earlier)
    this.#recent.set(id, [view, ...others].slice(0, RECENT_MAX))
  }
}

function keyOf({ protocol, name, address, port, reason }: DeniedAnswer): string {
  return JSON.stringify([protocol, name, address, port, reason])
}

function entryOf(denial: DeniedAnswer): NewLedgerEntry {
  const { name, address, port, reason, count } = denial
  const where = name ?? address
  const to = where === undefined ? '' : ` to ${where}${port === undefined ? '' : ` port ${port}`}`
  const often = count === 1 ? '' : `, ${count} times`
  return { event: 'denied', cause: 'network', detail: `Refused${to}: ${reason}${often}.`, denied: denial }
}
