import { readFile, rename, writeFile } from 'node:fs/promises'
import {
  type BurrowId,
  burrowLimitsSchema,
  isBurrowId,
  isLayerId,
  isSandboxId,
  isSnapshotId,
  type LayerId,
  type SandboxId,
  type SnapshotId,
} from '@dormouse/contracts'
import { z } from 'zod'
import { volumeMountsSchema } from '../volume/volume-mounts.ts'

const recordSchema = z.strictObject({
  formatVersion: z.literal(1),
  id: z.custom<BurrowId>((value) => typeof value === 'string' && isBurrowId(value)),
  sandboxId: z.custom<SandboxId>((value) => typeof value === 'string' && isSandboxId(value)),
  template: z.string(),
  templateHash: z.string(),
  /** Layers between the template and the burrow's own files, top first. */
  layers: z.array(z.custom<LayerId>((value) => typeof value === 'string' && isLayerId(value))),
  /** Name of the directory of ours that it sees as /.dormouse. */
  tools: z.string(),
  /** The snapshot it was restored from. */
  parent: z.custom<SnapshotId>((value) => typeof value === 'string' && isSnapshotId(value)).optional(),
  limits: burrowLimitsSchema,
  volumes: volumeMountsSchema.default([]),
  createdAt: z.iso.datetime(),
  /** `starting` until the caller could have been told of it; one that stays so has nobody who knows it. */
  state: z.enum(['starting', 'ready']),
})

/** What the next server must know of a burrow to take it over. */
export type BurrowRecord = z.output<typeof recordSchema>

export function newRecord(fields: Omit<BurrowRecord, 'formatVersion' | 'createdAt' | 'state'>): BurrowRecord {
  return { formatVersion: 1, ...fields, createdAt: new Date().toISOString(), state: 'starting' }
}

/** Atomic: a reader sees the old record or the new one. */
export async function writeRecord(path: string, record: BurrowRecord): Promise<void> {
  const publish = await prepareRecord(path, record)
  await publish()
}

/** Writes it beside the present one. The present one stays in force until the answer is called. */
export async function prepareRecord(path: string, record: BurrowRecord): Promise<() => Promise<void>> {
  await writeFile(`${path}.new`, `${JSON.stringify(record, undefined, 2)}\n`, { mode: 0o600 })
  return () => rename(`${path}.new`, path)
}

/** undefined when it was never finished or cannot be understood: such a burrow cannot be adopted. */
export async function findRecord(path: string): Promise<BurrowRecord | undefined> {
  const text = await readFile(path, 'utf8').catch(() => undefined)
  if (text === undefined) return undefined
  try {
    return recordSchema.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}
