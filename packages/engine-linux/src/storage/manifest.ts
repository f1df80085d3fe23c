import { readFile } from 'node:fs/promises'
import {
  burrowLimitsSchema,
  DormouseError,
  isLayerId,
  isSandboxId,
  isSnapshotId,
  type LayerId,
  type SandboxId,
  type SnapshotId,
} from '@dormouse/contracts'
import { z } from 'zod'
import { programSettingsSchema } from '../template/program-settings.ts'
import { volumeFileSchema } from '../volume/volume-files.ts'
import { volumeLockSchema } from '../volume/volume-locks.ts'
import { volumeMountsSchema } from '../volume/volume-mounts.ts'
import { fingerprintSchema } from './fingerprint.ts'

/** Independent of the product's version: it changes only when older snapshots cannot be read any more. */
export const SNAPSHOT_FORMAT_VERSION = 2

const snapshotId = z.custom<SnapshotId>((value) => typeof value === 'string' && isSnapshotId(value))
const layerId = z.custom<LayerId>((value) => typeof value === 'string' && isLayerId(value))
const nanoseconds = z.string().regex(/^\d+$/).transform(BigInt)

const summedFile = z.strictObject({ name: z.string(), sizeBytes: z.int(), checksum: z.string() })

const common = {
  formatVersion: z.literal(SNAPSHOT_FORMAT_VERSION),
  id: snapshotId,
  sandboxId: z.custom<SandboxId>((value) => typeof value === 'string' && isSandboxId(value)),
  parent: snapshotId.optional(),
  createdAt: z.iso.datetime(),
  template: z.strictObject({ name: z.string(), hash: z.string() }),
  /** Version of the files; upkeep makes new ones that restore faster. The first version has no number. */
  generation: z.int().positive().optional(),
  /** Top first; the template's root file system is below the last. */
  layers: z.array(layerId),
  limits: burrowLimitsSchema,
  volumes: volumeMountsSchema.default([]),
  /** Of a snapshot that was made from an image. */
  image: programSettingsSchema.optional(),
  bytes: z.strictObject({ images: z.int(), memory: z.int() }),
}

/** A snapshot of processes, memory and files. */
const fullSchema = z.strictObject({
  ...common,
  kind: z.literal('full'),
  /** Name of the tools directory that its processes see as /.dormouse. */
  tools: z.string(),
  /** What its processes have open on volumes. */
  volumeFiles: z.array(volumeFileSchema).default([]),
  /** Locks that its processes hold on volumes, to be given back at the wake. */
  volumeLocks: z.array(volumeLockSchema).default([]),
  clocks: z.strictObject({ monotonicNs: nanoseconds, boottimeNs: nanoseconds }),
  criuVersion: z.string(),
  fingerprint: fingerprintSchema,
  images: z.array(summedFile),
  memory: z.array(summedFile.extend({ mtimeNs: nanoseconds })),
  /** Processes have connections to the outside, which a restore brings back and then closes. */
  outside: z.literal(true).optional(),
  /** Its open files fit a burrow in which programs see their limits. Snapshots of earlier versions do not have this. */
  showsLimits: z.literal(true).optional(),
  /** The list of files that every restore copies into its upper directory; see `SnapshotPaths`. */
  carried: summedFile.optional(),
  /** Its pages images are folded: see image/fold-images.ts. */
  folded: z.literal(true).optional(),
  /** When the earliest timer or wait of its processes ends, if the save was to find out. */
  deadline: z.iso.datetime().optional(),
})

/** A snapshot of files alone: a burrow made from it boots. */
const filesSchema = z.strictObject({ ...common, kind: z.literal('files') })

const manifestSchema = z.discriminatedUnion('kind', [fullSchema, filesSchema])

export type FullManifest = z.output<typeof fullSchema>
export type FilesManifest = z.output<typeof filesSchema>
export type Manifest = FullManifest | FilesManifest

export function encodeManifest(manifest: Manifest): string {
  const plain = (_key: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value)
  return `${JSON.stringify(manifest, plain, 2)}\n`
}

/** Throws `not_found` when there is none, `snapshot_unusable` when it cannot be read or parsed. */
export async function readManifest(path: string): Promise<Manifest> {
  const text = await readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') throw new DormouseError('not_found', 'There is no such snapshot.', { cause })
    throw new DormouseError('snapshot_unusable', 'The manifest of the snapshot cannot be read.', { cause })
  })
  try {
    const value: unknown = JSON.parse(text)
    const version = (value as { formatVersion?: unknown } | null)?.formatVersion
    if (version !== SNAPSHOT_FORMAT_VERSION) {
      throw new DormouseError(
        'snapshot_unusable',
        `The snapshot has format version ${version}, not ${SNAPSHOT_FORMAT_VERSION}.`,
      )
    }
    return manifestSchema.parse(value)
  } catch (cause) {
    if (cause instanceof DormouseError) throw cause
    throw new DormouseError('snapshot_unusable', 'The manifest of the snapshot is damaged.', { cause })
  }
}

/** Fits all versions of the format so far, and later ones that keep this list. */
const layersOnly = z.looseObject({ formatVersion: z.int(), layers: z.array(layerId) })

/** The layers of a snapshot whose format may be unknown; undefined when the list cannot be read. */
export async function findLayers(path: string): Promise<LayerId[] | undefined> {
  try {
    return layersOnly.parse(JSON.parse(await readFile(path, 'utf8'))).layers
  } catch {
    return undefined
  }
}
