import { z } from 'zod'
import { findOverlap, mountPathProblem } from '../mount-path.ts'
import { nameField, textField } from './fields.ts'

const VOLUMES_MAX = 16
const PATH_MAX_BYTES = 4096

/** An absolute path inside a sandbox, without `.`, `..` and empty parts. */
const mountPathField = textField({ maxBytes: PATH_MAX_BYTES, minLength: 2 })
  .regex(/^\/[^/]/, 'must be an absolute path')
  .superRefine((path, context) => {
    const problem = mountPathProblem(path)
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
  })

export const volumeMountSchema = z
  .strictObject({ volume: nameField, path: mountPathField, readOnly: z.boolean().default(false) })
  .meta({ id: 'VolumeMount' })

/** Volumes of a sandbox: none inside another. */
export const volumesField = z
  .array(volumeMountSchema)
  .max(VOLUMES_MAX)
  .superRefine((mounts, context) => {
    const overlap = findOverlap(mounts.map(({ path }) => path))
    if (overlap === undefined) return
    const message = `must not be inside ${overlap.other}, where another volume is mounted`
    context.addIssue({ code: 'custom', path: [overlap.index, 'path'], message })
  })
