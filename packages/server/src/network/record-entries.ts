import type { SandboxId } from '@dormouse/contracts'
import type { Log } from '../log.ts'
import type { Database } from '../store/database.ts'
import type { LedgerRows, NewLedgerEntry } from '../store/ledger-rows.ts'

export interface EntryOf {
  readonly id: SandboxId
  readonly entry: NewLedgerEntry
}

interface LedgerParts {
  readonly db: Pick<Database, 'transactionWithoutSync'>
  readonly ledger: Pick<LedgerRows, 'add'>
  readonly clock: { wallMs(): number }
  readonly log: Log
}

/**
 * Writes ledger entries that belong to no transition. Skips sandboxes that no longer exist. A full disk is logged, not
 * thrown.
 */
export function recordEntries(
  { db, ledger, log, clock }: LedgerParts,
  exists: (id: SandboxId) => boolean,
  entries: readonly EntryOf[],
): void {
  try {
    // Not synced to disk: a power cut may lose the last of these, and no caller was told that they are stored.
    db.transactionWithoutSync(() => {
      for (const { id, entry } of entries) if (exists(id)) ledger.add(id, clock.wallMs(), entry)
    })
  } catch (error) {
    log.warn({ err: error }, 'ledger entries could not be written')
  }
}
