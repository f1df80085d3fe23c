import type { BurrowId } from '@dormouse/contracts'
import type { Engine } from '../engine.ts'

/** What an engine's own test file gives to the contract suite. */
export interface EngineFactory {
  /** Opens the engine on the same state each time, as a restarted server does. */
  open(): Promise<Engine>
  /** Everything on the host that burrows of this engine made and that is still there: processes, mounts, cgroups, files. */
  traces(): Promise<string[]>
  /** Kills every process of a burrow from outside, as an operator or the host's OOM killer might. */
  killBurrow(id: BurrowId): Promise<void>
  /** Kills the agent, from outside, with SIGKILL. */
  killAgent(id: BurrowId): Promise<void>
  /** Ends and removes whatever tests have left. */
  dispose(): Promise<void>
}
