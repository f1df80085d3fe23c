import { z } from 'zod'
import { nameField, sandboxIdField, snapshotIdField, timestampField } from './fields.ts'
import { tierField } from './sandboxes.ts'

/** The largest number of nodes of a tree. */
export const FAMILY_MAX_NODES = 500

const memorySchema = z.strictObject({
  privateBytes: z.int().describe('Memory that only this node uses.'),
  sharedBytes: z.int().describe('Memory that it shares with its family, and programs.'),
})

export const familySchema = z
  .strictObject({
    nodes: z
      .array(
        z.discriminatedUnion('kind', [
          z.strictObject({
            kind: z.literal('sandbox'),
            id: sandboxIdField,
            name: nameField.optional(),
            parentId: z.string().optional().describe('The sandbox that it was forked from.'),
            state: z.enum([
              'creating',
              'running',
              'suspending',
              'standby',
              'resuming',
              'deleting',
              'deleted',
            ]),
            tier: tierField.optional(),
            createdAt: timestampField.optional(),
            memory: memorySchema.optional().describe('Absent while it is not in memory.'),
          }),
          z.strictObject({
            kind: z.literal('snapshot'),
            id: snapshotIdField,
            name: nameField.optional(),
            parentId: z.string().describe('The sandbox that it is of.'),
            createdAt: timestampField,
            memoryBytes: z.int(),
          }),
        ]),
      )
      .readonly(),
    more: z.boolean().describe('The tree has more nodes than an answer may have.'),
  })
  .meta({
    id: 'Family',
    examples: [
      {
        nodes: [
          { kind: 'sandbox', id: 'sb-k3v9x2m4p7q8r5t6', name: 'analysis', state: 'standby', tier: 'stored' },
          {
            kind: 'snapshot',
            id: 'sn-k3v9x2m4p7q8r5t6',
            parentId: 'sb-k3v9x2m4p7q8r5t6',
            createdAt: '2026-01-01T12:00:00.000Z',
            memoryBytes: 46_100_000,
          },
        ],
        more: false,
      },
    ],
  })

export type FamilyAnswer = z.output<typeof familySchema>
