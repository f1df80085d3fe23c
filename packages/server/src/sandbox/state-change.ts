import type { Burrow } from '@dormouse/engine'
import type { IntentKind } from '../store/intent-rows.ts'
import type { NewLedgerEntry } from '../store/ledger-rows.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'

/** What one transaction changes: the row, its intent, its ledger, and the burrow that the sandbox lives in. */
export interface StateChange {
  readonly fields?: Partial<SandboxRow>
  /** `null`: it has no burrow from now on. */
  readonly newBurrow?: NewBurrow | null
  /** What begins with this; `null`: what had begun is over. */
  readonly intent?: IntentKind | null
  readonly entry?: NewLedgerEntry
  /** Other rows to write in the same transaction. */
  readonly inTransaction?: () => void
  /** Does not wait for the disk. A power cut may undo it; recovery then continues from the row before, without loss. */
  readonly isQuick?: boolean
}

export interface NewBurrow {
  readonly burrow: Burrow
  /** It has the memory that the burrow before had. */
  readonly isContinued: boolean
  /** An earlier server has counted what it used so far. */
  readonly isAdopted?: boolean
}
