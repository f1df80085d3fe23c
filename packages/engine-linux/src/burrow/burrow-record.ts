import { readFile, rename, writeFile } from 'node:fs/promises'
import {
  type BurrowId,
  burrowLimitsSchema,
  DormouseError,
  isBurrowId,
  isLayerId,
  isSandboxId,
  isSnapshotId,
  type LayerId,
  type SandboxId,
  type SnapshotId,
} from '@dormouse/contracts'
import { z } from 'zod'
import { programSettingsSchema } from '../template/program-settings.ts'
import { volumeMountsSchema } from '../volume/volume-mounts.ts'

const RECORD_FORMAT_VERSION = 1

const recordSchema = z.strictObject({
  formatVersion: z.literal(RECORD_FORMAT_VERSION),
  id: z.custom<BurrowId>((value) => typeof value === 'string' && isBurrowId(value)),
  sandboxId: z.custom<SandboxId>((value) => typeof value === 'string' && isSandboxId(value)),
  template: z.string(),
  templateHash: z.string(),
  /** Layers between the template and the burrow's own files, top first. */
  layers: z.array(z.custom<LayerId>((value) => typeof value === 'string' && isLayerId(value))),
  /** Name of the tools directory that the burrow sees as /.dormouse. */
  tools: z.string(),
  /** The snapshot it was restored from. */
  parent: z.custom<SnapshotId>((value) => typeof value === 'string' && isSnapshotId(value)).optional(),
  limits: burrowLimitsSchema,
  volumes: volumeMountsSchema.default([]),
  /** Of a burrow that was made from an image. */
  image: programSettingsSchema.optional(),
  createdAt: z.iso.datetime(),
  /** `starting` until the engine returns the burrow to its caller. No server knows a burrow that stays `starting`. */
  state: z.enum(['starting', 'ready']),
})

/** What the next server must know about a burrow to adopt it. */
export type BurrowRecord = z.output<typeof recordSchema>

export function newRecord(fields: Omit<BurrowRecord, 'formatVersion' | 'createdAt' | 'state'>): BurrowRecord {
  return {
    formatVersion: RECORD_FORMAT_VERSION,
    ...fields,
    createdAt: new Date().toISOString(),
    state: 'starting',
  }
}

/** Atomic: a reader sees the old record or the new one. */
export async function writeRecord(path: string, record: BurrowRecord): Promise<void> {
  const publish = await prepareRecord(path, record)
  await publish()
}

/** Writes a new record beside the present one. The returned function puts it in place. */
export async function prepareRecord(path: string, record: BurrowRecord): Promise<() => Promise<void>> {
  await writeFile(`${path}.new`, `${JSON.stringify(record, undefined, 2)}\n`, { mode: 0o600 })
  return () => rename(`${path}.new`, path)
}

/**
 * Undefined when the record was never finished or is damaged: such a burrow cannot be adopted. Throws when it cannot be
 * read now, or has the format of another version: then nothing is known about the burrow, and all of it may be needed.
 */
export async function findRecord(path: string): Promise<BurrowRecord | undefined> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
  const value = text === undefined ? undefined : parse(text)
  const version = (value as { formatVersion?: unknown } | null | undefined)?.formatVersion
  if (typeof version === 'number' && version !== RECORD_FORMAT_VERSION)
    throw new DormouseError('internal', `The record of a burrow has format version ${version}.`)
  return recordSchema.safeParse(value).data
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
