export { type AllowRule, allowRuleProblem, denyRuleProblem, parseAllowRule } from './allow-rule.ts'
export { BoundedText, boundText } from './bounded-text.ts'
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
  InputEvent,
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
  isProcessId,
  isSandboxId,
  isServiceId,
  isSnapshotId,
  isVolumeId,
  type JobId,
  type LayerId,
  newBurrowId,
  newJobId,
  newLayerId,
  newRunId,
  newSandboxId,
  newServiceId,
  newSnapshotId,
  newVolumeId,
  type RunId,
  type SandboxId,
  type ServiceId,
  type SnapshotId,
  type VolumeId,
} from './ids.ts'
export { ISOLATIONS, type Isolation } from './isolation.ts'
export { DEFAULT_CONTEXT, defaultContextOf, LANGUAGES, type Language } from './languages.ts'
export {
  DEFAULT_CPUS,
  DEFAULT_DISK_BYTES,
  DEFAULT_FILES,
  DEFAULT_MEMORY_BYTES,
  DEFAULT_PIDS,
  DEFAULT_VOLUME_BYTES,
  ENV_MAX_BYTES,
  ENV_MAX_ENTRIES,
  KEPT_CODE_MAX_BYTES,
  MAX_CPUS,
  MAX_DISK_BYTES,
  MAX_FILES,
  MAX_MEMORY_BYTES,
  MAX_PIDS,
  MIN_CPUS,
  MIN_DISK_BYTES,
  MIN_FILES,
  MIN_MEMORY_BYTES,
  MIN_PIDS,
  RUN_OUTPUT_MAX_BYTES,
  RUN_RESULTS_MAX_BYTES,
  SECRET_MIN_BYTES,
} from './limits.ts'
export { type Material, type Materials, materialSchema } from './materials.ts'
export { findOverlap, isInside, mountPathProblem } from './mount-path.ts'
export { parseInput } from './parse.ts'
export { canMove, type SandboxState } from './sandbox-state.ts'
