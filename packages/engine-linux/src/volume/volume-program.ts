import { FilesProgram } from '../host/files-program.ts'
import { volumeProgram } from '../native-programs.ts'
import { UID_BASE, UID_COUNT } from '../template/shifted-root.ts'

export interface VolumeProgramOptions {
  readonly signal?: AbortSignal | undefined
  /** It is killed after this time. */
  readonly lifeMs?: number
}

/** Starts dormouse-volume, which sees the volume at `path` and nothing else. See native/src/volume.c. */
export function startVolumeProgram(
  path: string,
  action: readonly [string, string, ...string[]],
  options: VolumeProgramOptions,
): FilesProgram {
  const place = [String(UID_BASE), String(UID_COUNT), path]
  return FilesProgram.run([volumeProgram, ...place, ...action], { path: action[1], ...options })
}
