import type { SandboxId, SnapshotId } from '@dormouse/contracts'
import type { NewLedgerEntry } from '../store/ledger-rows.ts'

/** Why connections of a sandbox ended although neither side had closed them. */
export type LossCause = 'sleep' | 'wake' | 'expired' | 'rollback' | 'fork'

const WORDS: Record<LossCause, string> = {
  sleep: 'Connections ended when it fell asleep',
  wake: 'Connections ended at its wake',
  expired: 'Connections ended after their time asleep',
  rollback: 'Connections ended at its rollback',
  fork: 'Connections of its parent ended here at the fork',
}
/** `why` shows a loss this long. */
const RECENT_MS = 3_600_000
/** Of one entry. The rest is counted. */
const NAMED_MAX = 20

export interface LostConnectionsOptions {
  readonly record: (id: SandboxId, entry: NewLedgerEntry) => void
}

/** Writes connections that did not outlive a sleep, fork or rollback into the ledger of their sandbox. */
export class LostConnections {
  readonly #options: LostConnectionsOptions
  readonly #last = new Map<SandboxId, { readonly text: string; readonly atMs: number }>()
  readonly #inSnapshots = new Map<
    SandboxId,
    { readonly snapshotId: SnapshotId; readonly to: readonly string[] }
  >()

  constructor(options: LostConnectionsOptions) {
    this.#options = options
  }

  add(id: SandboxId, cause: LossCause, to: readonly string[]): void {
    if (to.length === 0) return
    const detail = inWords(to)
    this.#last.set(id, { text: `${WORDS[cause]}: ${detail}.`, atMs: performance.now() })
    this.#options.record(id, { event: 'disconnected', cause, detail })
  }

  /** The last loss, if it was recent, in a sentence. */
  describe(id: SandboxId): string | undefined {
    const last = this.#last.get(id)
    return last === undefined || performance.now() - last.atMs > RECENT_MS ? undefined : last.text
  }

  /** The snapshot contains these connections; only its own sandbox can continue them. */
  saved(id: SandboxId, snapshotId: SnapshotId, to: readonly string[]): void {
    if (to.length === 0) this.#inSnapshots.delete(id)
    else this.#inSnapshots.set(id, { snapshotId, to })
  }

  /** Those that a copy of this snapshot has lost. */
  inSnapshot(id: SandboxId, snapshotId: SnapshotId): readonly string[] {
    const saved = this.#inSnapshots.get(id)
    return saved?.snapshotId === snapshotId ? saved.to : []
  }

  forget(id: SandboxId): void {
    this.#last.delete(id)
    this.#inSnapshots.delete(id)
  }
}

function inWords(to: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const each of to) counts.set(each, (counts.get(each) ?? 0) + 1)
  const named = [...counts].slice(0, NAMED_MAX)
  const left = to.length - named.reduce((sum, [, count]) => sum + count, 0)
  const words = named.map(([each, count]) => `TCP ${each}${count > 1 ? ` (${count})` : ''}`)
  return [...words, ...(left > 0 ? [`${left} more`] : [])].join(', ')
}
