export interface BurrowUsage {
  readonly memoryBytes: number
  readonly memoryPeakBytes: number
  readonly cpuMs: number
  readonly pids: number
  /** How often the kernel killed a process inside because memory ran out. */
  readonly oomKills: number
}

/** What programs inside see as the size and the use of their root file system. */
export interface ShownDisk {
  readonly bytes: number
  readonly files: number
  /** The last known use, if left out. */
  readonly usedBytes?: number
  readonly usedFiles?: number
}

/** A program whose memory is copied at every save and restore instead of being mapped. */
export interface CopiedProgram {
  readonly program: string
  /** Memory that is copied, of all processes of this name. */
  readonly bytes: number
}

/** How much of the memory of a burrow's processes belongs to it alone. */
export interface BurrowMemory {
  /** Memory that only this burrow has; it is freed when the burrow ends. */
  readonly privateBytes: number
  /**
   * Mapped pages of files: programs, and unchanged memory of the snapshot that the burrow came from. Its siblings map
   * the same pages. A page that several of its processes map is counted several times.
   */
  readonly sharedBytes: number
  /** The burrow's part when every page is divided among all processes on the host that map it. */
  readonly proportionalBytes: number
  /** Largest first, a few. */
  readonly copied: readonly CopiedProgram[]
}
