import type { Denial } from '../gate/denial-collector.ts'

/** A name that a sandbox may look up, but that gave it no address. */
export interface FailedLookup {
  readonly sandboxId: string
  readonly name: string
  readonly reason: string
}

/** What egress reports of sandboxes. */
export interface EgressListeners {
  readonly onDenial: (denial: Denial) => void
  readonly onFailedLookup: (failed: FailedLookup) => void
  /** Once for each sleep. */
  readonly onDataAsleep: (sandboxId: string) => void
  /** Connections ended with their burrow: what they connected to. */
  readonly onLost: (sandboxId: string, to: readonly string[]) => void
}
