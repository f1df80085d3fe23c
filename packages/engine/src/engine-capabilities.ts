/** What an engine can do on this host. Callers branch on these, never on an engine's name. */
export interface EngineCapabilities {
  /** Snapshots, restore, fork and rollback work here. */
  readonly snapshot: boolean
  /** Burrows outlive the process that made them and can be adopted by the next one. */
  readonly adopt: boolean
  /** Limits are enforced for these resources. */
  readonly limits: { readonly memory: boolean; readonly cpu: boolean; readonly pids: boolean }
  /** Burrows have gates; without a gate a burrow reaches nothing outside. */
  readonly network: boolean
  /** Burrows can mount volumes. */
  readonly volumes: boolean
  /** Snapshots know when the next timer inside ends, and a restore can let time pass. */
  readonly timers: boolean
  /** The files of a snapshot can be read without a burrow. */
  readonly snapshotFiles: boolean
  /** Container images can be imported. */
  readonly images: boolean
  /** `atMemoryLimit: 'pause'` works. */
  readonly waitsAtMemoryLimit: boolean
}
