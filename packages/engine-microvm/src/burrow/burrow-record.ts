import { readFile, rename, writeFile } from 'node:fs/promises'
import {
  type BurrowId,
  burrowLimitsSchema,
  isBurrowId,
  isSandboxId,
  isSnapshotId,
  type SandboxId,
  type SnapshotId,
} from '@dormouse/contracts'
import { z } from 'zod'
import { baseSchema, mountedVolumesSchema } from '../storage/manifest.ts'

const snapshotId = z.custom<SnapshotId>((value) => typeof value === 'string' && isSnapshotId(value))

const recordSchema = z.strictObject({
  formatVersion: z.literal(1),
  id: z.custom<BurrowId>((value) => typeof value === 'string' && isBurrowId(value)),
  sandboxId: z.custom<SandboxId>((value) => typeof value === 'string' && isSandboxId(value)),
  base: baseSchema,
  /** The uid of its QEMU. */
  uid: z.number().int(),
  parent: snapshotId.optional(),
  limits: burrowLimitsSchema,
  volumes: mountedVolumesSchema.default([]),
  createdAt: z.iso.datetime(),
  /** QEMU as the host sees it; its pid may belong to another process later. */
  first: z.strictObject({ pid: z.number().int(), startTime: z.string() }).optional(),
  /** `starting` until the engine returns the burrow to its caller. No server knows a burrow that stays `starting`. */
  state: z.enum(['starting', 'ready']),
})

/** What the next server must know about a burrow to adopt it. */
export type MicrovmRecord = z.output<typeof recordSchema>

/** Atomic: a reader sees the old record or the new one. */
export async function writeRecord(path: string, record: MicrovmRecord): Promise<void> {
  await writeFile(`${path}.new`, `${JSON.stringify(record, undefined, 2)}\n`, { mode: 0o600 })
  await rename(`${path}.new`, path)
}

/** Undefined when the record was never finished or is damaged: such a burrow cannot be adopted. */
export async function findRecord(path: string): Promise<MicrovmRecord | undefined> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
    return ''
  })
  try {
    return recordSchema.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}

const savingSchema = z.strictObject({ snapshotId, wasFrozen: z.boolean() })

/** The note beside a burrow that says that a snapshot of it is being taken. */
export type SaveIntent = z.output<typeof savingSchema>

export async function findSaveIntent(path: string): Promise<SaveIntent | undefined> {
  const text = await readFile(path, 'utf8').catch(() => '')
  try {
    return savingSchema.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}
