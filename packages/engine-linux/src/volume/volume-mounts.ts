import { DormouseError, findOverlap, isVolumeId, mountPathProblem, type VolumeId } from '@dormouse/contracts'
import { z } from 'zod'

/** The kernel makes each of these mounts, and every dump reads them. */
const MOUNTS_MAX = 16

export const volumeMountSchema = z.strictObject({
  volumeId: z.custom<VolumeId>(
    (value) => typeof value === 'string' && isVolumeId(value),
    'is not a volume id',
  ),
  path: z.string().superRefine((path, context) => {
    const problem = mountPathProblem(path)
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
  }),
  readOnly: z.boolean(),
})

export const volumeMountsSchema = z
  .array(volumeMountSchema)
  .max(MOUNTS_MAX)
  .superRefine((mounts, context) => {
    const overlap = findOverlap(mounts.map(({ path }) => path))
    if (overlap === undefined) return
    const message = `must not be in ${overlap.other}, where another volume is`
    context.addIssue({ code: 'custom', path: [overlap.index, 'path'], message })
  })

/** The volumes as dormouse-init reads them: `<ro|rw> <volume id> <path inside>`, see native/src/volumes.c. */
export function describeMounts(mounts: z.output<typeof volumeMountsSchema>): string[] {
  return mounts.map(({ volumeId, path, readOnly }) => `${readOnly ? 'ro' : 'rw'} ${volumeId} ${path}`)
}

/** How dormouse-init reports a path where a volume cannot be mounted. */
const CANNOT_MOUNT = /volume at (?<path>\/.*): (?<reason>[^:]*)$/s

/** Turns the failure of a mount into `invalid_argument`: the path is the caller's mistake, not the host's. */
export function explainMountFailure(error: unknown): unknown {
  if (!(error instanceof DormouseError) || error.code !== 'burrow_start_failed') return error
  const { path, reason } = CANNOT_MOUNT.exec(error.message)?.groups ?? {}
  if (path === undefined || reason === 'No space left on device') return error
  return new DormouseError('invalid_argument', `volumes: nothing can be mounted at ${path}: ${reason}`, {
    hint: 'Choose a path whose parts are directories, or are not there yet; links are not followed.',
    cause: error,
  })
}
