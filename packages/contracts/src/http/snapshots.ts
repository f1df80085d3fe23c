import { z } from 'zod'
import {
  nameField,
  pageOf,
  pageQuery,
  sandboxIdField,
  sandboxRefField,
  snapshotIdField,
  snapshotRefField,
  timestampField,
} from './fields.ts'

const kindField = z.enum(['full', 'files']).describe('`full`: files and processes. `files`: files only.')

export const createSnapshotSchema = z
  .strictObject({
    name: nameField.exactOptional().describe('Unique among the snapshots of this sandbox.'),
    kind: kindField.default('full'),
  })
  .meta({ id: 'CreateSnapshot', examples: [{ name: 'before-upgrade' }] })

export const snapshotSchema = z
  .strictObject({
    id: snapshotIdField,
    sandboxId: sandboxIdField,
    name: nameField.optional(),
    kind: kindField,
    parentId: snapshotIdField.optional(),
    template: z.string(),
    createdAt: timestampField,
    isHead: z.boolean().describe('The sandbox wakes from this snapshot. It is deleted with the sandbox.'),
    damage: z
      .strictObject({ reason: z.string(), foundAt: timestampField })
      .optional()
      .describe('The snapshot is damaged and is never restored. `verify` checks it again.'),
    bytes: z.strictObject({ images: z.int(), memory: z.int() }),
  })
  .meta({
    id: 'Snapshot',
    examples: [
      {
        id: 'sn-k3v9x2m4p7q8r5t6',
        sandboxId: 'sb-k3v9x2m4p7q8r5t6',
        name: 'before-upgrade',
        kind: 'full',
        template: 'python',
        createdAt: '2026-01-01T12:00:00.000Z',
        isHead: false,
        bytes: { images: 2_100_000, memory: 44_000_000 },
      },
    ],
  })

export const verifiedSnapshotSchema = z
  .strictObject({ id: snapshotIdField, ok: z.literal(true) })
  .meta({ id: 'VerifiedSnapshot', examples: [{ id: 'sn-k3v9x2m4p7q8r5t6', ok: true }] })

export const snapshotPageSchema = pageOf(snapshotSchema).meta({ id: 'SnapshotPage' })
export const listSnapshotsQuery = z.strictObject({ ...pageQuery, sandboxId: sandboxRefField.exactOptional() })
export const snapshotParams = z.strictObject({ id: snapshotRefField })

export type CreateSnapshotBody = z.input<typeof createSnapshotSchema>
export type SnapshotAnswer = z.output<typeof snapshotSchema>
export type SnapshotPageAnswer = z.output<typeof snapshotPageSchema>
