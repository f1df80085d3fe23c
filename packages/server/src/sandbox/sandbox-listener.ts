import type { DormouseError } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { NewLedgerEntry } from '../store/ledger-rows.ts'
import type { SandboxRow, Tier } from '../store/sandbox-rows.ts'

/** Runs, metrics, usage and volumes listen to what happens to sandboxes. Listeners must not throw and must not wait. */
export interface SandboxListener {
  /** It runs in a burrow that is new to this server. `isContinued`: with the memory that the burrow before had. */
  awake?(row: SandboxRow, how: { readonly isContinued: boolean; readonly burrow: Burrow }): void
  /** Called before the child runs. */
  forked?(parent: SandboxRow, child: SandboxRow): void
  deleted?(row: SandboxRow): void
  /** Its row was written. */
  changed?(row: SandboxRow, before: SandboxRow): void
  /** Its processes ended, and no caller asked for that. May be called more than once. */
  lost?(row: SandboxRow): void
  /** It was saved at its memory limit. It does not wake before the limit is raised; calls get this error. */
  paused?(row: SandboxRow, error: DormouseError): void
  recorded?(row: SandboxRow, entry: NewLedgerEntry): void
  /** A wake whose ledger entry was written before it began is done. */
  woke?(row: SandboxRow, wake: { readonly tier: Tier; readonly latencyMs: number }): void
  /** It has been running for this much longer. */
  ran?(row: SandboxRow, ms: number): void
  /** What its processes used since the last sample. */
  sampled?(row: SandboxRow, sample: { ms: number; cpuMs: number; memoryBytes: number }): void
}
