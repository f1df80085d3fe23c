import { isInside } from '@dormouse/contracts'
import { z } from 'zod'

/**
 * Something on a volume that a saved process has open, maps, watches, or has as its directory. Other sandboxes may
 * change it while the process sleeps.
 */
export const volumeFileSchema = z.strictObject({
  /** Its id in files.img; for a watch, the id of the inotify instance. */
  fileId: z.int().nonnegative(),
  kind: z.enum(['file', 'watch']),
  path: z.string(),
  /** As in stat(2), with the file type. 0 for a watch, which accepts any type. */
  mode: z.int().nonnegative(),
  isWritten: z.boolean(),
  /** How far it is mapped: a process that touches pages beyond the end of the file is killed. */
  mappedBytes: z.int().nonnegative(),
  /** How far it is mapped privately: CRIU could not restore changed pages beyond the end. */
  privateBytes: z.int().nonnegative(),
  /** For a program or library: the name of the snapshot's copy, see library-copies.ts. */
  library: z
    .string()
    .regex(/^[\w-]+$/)
    .optional(),
})

export type VolumeFile = z.output<typeof volumeFileSchema>

export function findMount<Mount extends { readonly path: string }>(
  mounts: readonly Mount[],
  path: string,
): Mount | undefined {
  return mounts.find((mount) => isInside(path, mount.path))
}
