import type { SandboxLimits } from '../store/sandbox-rows.ts'

/** Compilers need more than most sandboxes, so a build has at least this much unless the operator says otherwise. */
const LEAST_MEMORY_BYTES = 2 * 1024 ** 3

export type BuildLimits = Omit<SandboxLimits, 'memoryBytes'> & { readonly memoryBytes?: number | undefined }

/**
 * The limits of a build. Unless the operator sets its memory, it has that of the sandboxes of the key: the program that
 * a build starts, with a model in memory for example, must fit where it will run.
 */
export function buildLimits(
  settings: BuildLimits,
  ofSandboxes: Pick<SandboxLimits, 'memoryBytes'>,
): SandboxLimits {
  const memoryBytes = settings.memoryBytes ?? Math.max(LEAST_MEMORY_BYTES, ofSandboxes.memoryBytes)
  return { ...settings, memoryBytes }
}
