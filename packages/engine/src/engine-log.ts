/** Where an engine writes what happened: a pino logger, or anything with the same three methods. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/**
 * Work that an engine does in the background. When it fails no caller gets an error, so the engine logs the failure and
 * counts it under this name.
 */
export type EngineFailureKind =
  /** A snapshot did not get a faster version. */
  | 'upkeep'
  /** Memory of a snapshot of another host has not come yet. */
  | 'arrival'
  /** File layers or other leftovers that nothing refers to were not removed. */
  | 'collection'
  /** A burrow or directory that is no longer needed was not removed. */
  | 'removal'
  /** A burrow was not restored ahead of need. */
  | 'reserve'
  /** An empty burrow, or what restores one, was not made ahead of need. */
  | 'spare'
  /** The space of a layer or snapshot was not measured, so the report on storage counts it as nothing. */
  | 'measurement'
  /** A snapshot was taken without the timers of its processes, so none of them wakes the sandbox in time. */
  | 'timer'
  /** The kernel refused a limit or a weight that all burrows share. */
  | 'limit'
  /** Memory of a live burrow was not moved into memory files, so its snapshot takes longer. */
  | 'move'
  /** The snapshot of a fork is not on disk yet; this is retried. */
  | 'sync'
  /** A burrow that outlived the last server was neither adopted nor saved. */
  | 'adoption'
  /** Connections of a burrow were not held or closed around a snapshot. */
  | 'network'
  /** The snapshot of a template cannot be read, so its sandboxes boot, which is slower. */
  | 'template'
  /** A step that lets a burrow continue after a failed snapshot failed and is retried. */
  | 'resume'
