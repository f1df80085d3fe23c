import type { BurrowId, BurrowLimits, BurrowLimitsInput, SandboxId } from '@dormouse/contracts'
import type { Guest } from './guest.ts'

/** What an engine can do on this host. Callers branch on these, never on an engine's name. */
export interface EngineCapabilities {
  /** Burrows outlive the process that made them and can be adopted by the next one. */
  readonly adopt: boolean
  /** Limits are enforced for these resources. */
  readonly limits: { readonly memory: boolean; readonly cpu: boolean; readonly pids: boolean }
}

export interface CreateBurrow {
  readonly sandboxId: SandboxId
  /** Name of a template; `python` exists always. */
  readonly template: string
  readonly limits?: BurrowLimitsInput
  /** Who runs code when a call does not say: a user of the template, `root` by default. */
  readonly user?: string
  /** Added to the environment of everything that starts inside. */
  readonly env?: Readonly<Record<string, string>>
}

/** Why a burrow is no more. */
export type BurrowEnd =
  | { readonly reason: 'destroyed' }
  /** The agent ended by itself: `exitCode`, or the number of the `signal`. */
  | { readonly reason: 'agent_ended'; readonly exitCode?: number; readonly signal?: number }
  /** Somebody ended the whole tree from outside, or the host ran out of memory. */
  | { readonly reason: 'killed' }

export interface BurrowUsage {
  readonly memoryBytes: number
  readonly memoryPeakBytes: number
  readonly cpuMs: number
  readonly pids: number
  /** How often the kernel ended a process inside for want of memory. */
  readonly oomKills: number
}

/** The live thing: namespaces, cgroup, mounts and the process tree. */
export interface Burrow extends AsyncDisposable {
  readonly id: BurrowId
  readonly sandboxId: SandboxId
  readonly template: string
  readonly limits: BurrowLimits
  readonly createdAt: Date
  /** Talks to the agent inside. Its calls fail with `burrow_ended` once `ended` has settled. */
  readonly guest: Guest
  /** Settles when the last process is gone; never rejects. */
  readonly ended: Promise<BurrowEnd>

  /** Post: the new limits hold and `limits` shows them; or they are refused and the old ones hold. */
  setLimits(limits: BurrowLimitsInput): Promise<void>
  usage(): Promise<BurrowUsage>
  /**
   * Ends every process and removes everything of the burrow: mounts, cgroups, files.
   * Post: nothing of it is left on the host. Calling it again is fine.
   */
  destroy(): Promise<void>
  /** Lets go of the burrow without touching it: it lives on and can be adopted. */
  release(): void
}

export interface Engine extends AsyncDisposable {
  readonly name: string
  readonly capabilities: EngineCapabilities

  /**
   * Pre: the template exists (`template_not_found`), limits and env are within bounds (`invalid_argument`).
   * Post: the agent answers. On failure or abort nothing of the burrow is left.
   */
  createBurrow(request: CreateBurrow, signal?: AbortSignal): Promise<Burrow>
  /**
   * Takes over the burrows that an earlier process left running, and removes what is left of those that have ended.
   * Pre: no other process uses this engine's data directory, and this one holds no burrow.
   */
  adoptBurrows(): Promise<AdoptedBurrows>
  /** Lets go of all burrows (they live on, see `Burrow.release`). */
  [Symbol.asyncDispose](): Promise<void>
}

export interface AdoptedBurrows {
  readonly burrows: readonly Burrow[]
  /** Burrows that were on record but are gone; their sandboxes have to be told. */
  readonly lost: readonly { readonly id: BurrowId; readonly sandboxId: SandboxId; readonly end: BurrowEnd }[]
}
