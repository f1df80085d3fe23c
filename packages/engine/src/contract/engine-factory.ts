import type { BurrowId } from '@dormouse/contracts'
import type { Engine } from '../engine.ts'

/** Why tests of refused snapshots are skipped: see `unsavable`. */
export const NOTHING_UNSAVABLE = 'nothing inside makes this engine refuse a snapshot'

/** What the test file of an engine provides to the contract suite. */
export interface EngineFactory {
  /** Opens the engine on the same state each time, as a restarted server does. */
  open(): Promise<Engine>
  /** What burrows of this engine created on the host and that still exists: processes, files and the like. */
  traces(): Promise<string[]>
  /** Kills every process of a burrow from outside, as an operator or the host's OOM killer might. */
  killBurrow(id: BurrowId): Promise<void>
  /** False if a burrow that is killed loses what its programs wrote and did not sync, as in a power cut. */
  readonly keepsUnsynced?: boolean
  /**
   * Python that prevents a full snapshot while it runs, and a word of the reason. Absent: nothing inside prevents one.
   */
  readonly unsavable?: { readonly code: string; readonly reason: string }
  /** Kills the agent, from outside, with SIGKILL. */
  killAgent(id: BurrowId): Promise<void>
  /** Ends and removes what tests left behind. */
  dispose(): Promise<void>
}
