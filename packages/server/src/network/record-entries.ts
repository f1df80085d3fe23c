import type { SandboxId } from '@dormouse/contracts'
import type { SandboxDependencies } from '../sandbox/sandbox-dependencies.ts'
import type { NewLedgerEntry } from '../store/ledger-rows.ts'

export interface EntryOf {
  readonly id: SandboxId
  readonly entry: NewLedgerEntry
}

/**
 * Writes into ledgers what comes from outside of any transition. What is about a sandbox that was deleted meanwhile is about nobody, and a
 * full disk is no reason to end.
 */
export function recordEntries(
  { db, ledger, log, clock }: Pick<SandboxDependencies, 'db' | 'ledger' | 'log' | 'clock'>,
  isThere: (id: SandboxId) => boolean,
  entries: readonly EntryOf[],
): void {
  try {
    // A power cut that takes the last moment of these takes nothing that anybody was told.
    db.quickTransaction(() => {
      for (const { id, entry } of entries) if (isThere(id)) ledger.add(id, clock.wallMs(), entry)
    })
  } catch (error) {
    log.warn({ err: error }, 'what happened to networks of sandboxes was not written down')
  }
}
