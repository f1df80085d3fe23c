import { readFile } from 'node:fs/promises'
import {
  burrowLimitsSchema,
  DormouseError,
  isSandboxId,
  isSnapshotId,
  type SandboxId,
  type SnapshotId,
} from '@dormouse/contracts'
import {
  programSettingsSchema,
  volumeLockSchema,
  volumeMountSchema,
} from '@dormouse/engine-linux/for-engines'
import { z } from 'zod'

export const MANIFEST_FORMAT_VERSION = 1

/** What a guest was booted with. Its memory and devices only make sense to the same machine. */
const machineSchema = z.strictObject({
  accelerator: z.enum(['kvm', 'tcg']),
  qemuVersion: z.string(),
  kernel: z.string(),
  memoryBytes: z.number().int().positive(),
  cpus: z.number().int().positive(),
})

export type Machine = z.output<typeof machineSchema>

/** File names of disks below a burrow's own, lowest first; the lowest is the root disk of the template. */
const disksSchema = z.array(z.string().regex(/^[\w.-]+$/)).min(1)

export const baseSchema = z.strictObject({
  machine: machineSchema,
  template: z.string(),
  templateHash: z.string(),
  /** The root disk, and the disk with the guest's tools, in the data directory. */
  rootDisk: z.string(),
  toolsDisk: z.string(),
  /** Disks and memory files of the booted template that lie in its directory, by the name of that directory. */
  build: z.string(),
  /** Whether the agent runs on its own Python, and how programs start: for files of an image. */
  isImage: z.boolean().optional(),
  image: programSettingsSchema.optional(),
  disks: disksSchema,
  memory: z.array(z.string().regex(/^[\w.-]+$/)),
})

/** A volume that the guest has mounted, by the number that its PID 1 has for it. */
export const mountedVolumesSchema = z.array(volumeMountSchema.extend({ number: z.number().int().min(0) }))

export type MountedVolume = z.output<typeof mountedVolumesSchema>[number]

/** What a burrow was made from. */
export type Base = z.output<typeof baseSchema>

/** All disks that a machine of this base has, below its own. */
export function disksOf({ disks, toolsDisk }: Base): readonly string[] {
  return [...disks, toolsDisk]
}

const snapshotId = z.custom<SnapshotId>((value) => typeof value === 'string' && isSnapshotId(value))

const manifestSchema = z.strictObject({
  formatVersion: z.literal(MANIFEST_FORMAT_VERSION),
  id: snapshotId,
  sandboxId: z.custom<SandboxId>((value) => typeof value === 'string' && isSandboxId(value)),
  kind: z.enum(['full', 'files']),
  parent: snapshotId.optional(),
  createdAt: z.iso.datetime(),
  limits: burrowLimitsSchema,
  base: baseSchema,
  /** Their content is not part of it. */
  volumes: mountedVolumesSchema.default([]),
  /** Locks that processes of the guest held on files there. */
  volumeLocks: z.array(volumeLockSchema).default([]),
  /** Checksums of the files that this snapshot added, by path below its directory. That of the disk comes later. */
  sums: z.record(z.string(), z.string()),
  bytes: z.strictObject({ images: z.number(), memory: z.number() }),
})

export type Manifest = z.output<typeof manifestSchema>

export function formatManifest(manifest: Manifest): string {
  return `${JSON.stringify(manifest, undefined, 2)}\n`
}

/** Throws `not_found`, or `snapshot_unusable` when it cannot be read. */
export async function readManifest(path: string, id: string): Promise<Manifest> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') throw new DormouseError('not_found', `There is no snapshot ${id}.`)
    throw error
  })
  try {
    return manifestSchema.parse(JSON.parse(text))
  } catch (cause) {
    throw new DormouseError('snapshot_unusable', `The manifest of the snapshot ${id} is damaged.`, { cause })
  }
}
