export { type AllowRule, allowRuleProblem, parseAllowRule } from './allow-rule.ts'
export { BoundedText } from './bounded-text.ts'
export { type BurrowLimits, type BurrowLimitsInput, burrowLimitsSchema } from './burrow-limits.ts'
export {
  DormouseError,
  ERRORS,
  type ErrorCode,
  type ErrorDetails,
  hasErrorCode,
  isErrorCode,
} from './errors.ts'
export type {
  OutputEvent,
  ProcessEvent,
  ResultData,
  RunError,
  RunEvent,
  RunResult,
  TruncatedEvent,
} from './events.ts'
export {
  type BurrowId,
  isBurrowId,
  isLayerId,
  isSandboxId,
  isSnapshotId,
  isVolumeId,
  type LayerId,
  newBurrowId,
  newLayerId,
  newRunId,
  newSandboxId,
  newSnapshotId,
  newVolumeId,
  type RunId,
  type SandboxId,
  type SnapshotId,
  type VolumeId,
} from './ids.ts'
export {
  CODE_MAX_BYTES,
  DEFAULT_CPUS,
  DEFAULT_DISK_BYTES,
  DEFAULT_MEMORY_BYTES,
  DEFAULT_PIDS,
  ENV_MAX_BYTES,
  ENV_MAX_ENTRIES,
  RUN_OUTPUT_MAX_BYTES,
  RUN_RESULTS_MAX_BYTES,
  RUN_TIMEOUT_MAX_MS,
} from './limits.ts'
export { findOverlap, isInside, mountPathProblem } from './mount-path.ts'
export { parseInput } from './parse.ts'
export { canMove, NEXT_STATES, type SandboxState } from './sandbox-state.ts'
