import { isInside } from '@dormouse/contracts'
import { z } from 'zod'

/** Something on a volume that a process of a snapshot has open, maps, watches or is in. Others may change it while the process sleeps. */
export const volumeFileSchema = z.strictObject({
  /** Its id in files.img; of a watch, that of the inotify. */
  fileId: z.int().nonnegative(),
  kind: z.enum(['file', 'watch']),
  path: z.string(),
  /** As in stat(2), with the type. 0 for a watch, which takes whatever is there. */
  mode: z.int().nonnegative(),
  isWritten: z.boolean(),
  /** How far it is mapped: a process that touches pages behind a file's end is killed. */
  mappedBytes: z.int().nonnegative(),
  /** How far it is mapped privately: CRIU could not bring back changed pages behind its end. */
  privateBytes: z.int().nonnegative(),
  /** Of a program or library: the name of the snapshot's copy of it, see library-copies.ts. */
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
