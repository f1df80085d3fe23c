import { canMove, DormouseError, type SandboxState } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { IntentKind } from '../store/intent-rows.ts'
import type { NewLedgerEntry } from '../store/ledger-rows.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'

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
  readonly withoutSync?: boolean
}

export interface NewBurrow {
  readonly burrow: Burrow
  /** It has the memory that the burrow before had. */
  readonly isContinued: boolean
  /** An earlier server has counted what it used so far. */
  readonly isAdopted?: boolean
}

/** The row as a change makes it. */
export function changedRow(before: SandboxRow, fields: Partial<SandboxRow>): SandboxRow {
  const row = { ...before, ...(fields.head !== undefined && { headOf: before.id }), ...fields }
  // The time belongs to the snapshot that it sleeps at.
  const isAsleep = row.state === 'standby' || row.state === 'resuming'
  const isSame = 'wakesAt' in fields || row.head === before.head
  return row.wakeOnTimer && isAsleep && isSame ? row : { ...row, wakesAt: undefined }
}

/** Where these moves lead. Each must be in the table of states. */
export function lastState(from: SandboxState, to: SandboxState | readonly SandboxState[]): SandboxState {
  let state = from
  for (const next of typeof to === 'string' ? [to] : to) {
    if (!canMove({ from: state, to: next }))
      throw new DormouseError('internal', `A sandbox cannot go from ${state} to ${next}.`)
    state = next
  }
  return state
}

/** Writes a row with its intent, its ledger entry and other rows: all of them or nothing. */
export function writeChange(
  { db, rows, intents, ledger, clock, snapshots }: SandboxDependencies,
  { row, before, change }: { row: SandboxRow; before: SandboxRow; change: StateChange },
): void {
  const { fields, intent, entry, inTransaction, withoutSync = false } = change
  const put = () => {
    rows.put(row, before)
    if (intent === null) intents.end(row.id)
    else if (intent !== undefined) intents.begin(row.id, intent, clock.wallMs())
    if (entry !== undefined) ledger.add(row.id, clock.wallMs(), entry)
    inTransaction?.()
    if (fields?.head !== undefined) requireOwnHead(row, snapshots)
  }
  if (withoutSync) db.transactionWithoutSync(put)
  else db.transaction(put)
}

/** A head is a snapshot of this sandbox, or of the one that a fork or a rollback names. */
function requireOwnHead({ head, headOf }: SandboxRow, snapshots: Pick<SnapshotRows, 'get'>): void {
  const snapshot = head && snapshots.get(head)
  if (snapshot?.sandboxId === headOf) return
  throw new DormouseError('internal', `Snapshot ${head} is not of sandbox ${headOf}.`)
}
