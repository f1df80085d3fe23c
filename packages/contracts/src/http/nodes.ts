import { z } from 'zod'
import { sandboxIdField, timestampField } from './fields.ts'

const ID = /^[a-z0-9][a-z0-9-]{0,62}$/

export const nodeIdField = z.string().regex(ID, 'must be the id of a node, such as host-0a1b2c3d4e')

export const nodeSchema = z
  .strictObject({
    id: nodeIdField,
    address: z.string().describe('Where the other hosts reach it.'),
    state: z
      .enum(['alive', 'lost', 'left'])
      .describe('`lost`: it has not renewed its lease. `left`: its server was stopped in order.'),
    isSelf: z.boolean().describe('It has answered this request.'),
    isCordoned: z.boolean().describe('It gets no new sandboxes.'),
    drain: z
      .strictObject({
        ...{ total: z.int(), moved: z.int(), left: z.int() },
        stays: z
          .array(z.strictObject({ sandboxId: sandboxIdField, reason: z.string() }))
          .readonly()
          .describe('The first 20 sandboxes that cannot move, and why.'),
      })
      .optional()
      .describe(
        'How many of its sandboxes a drain has moved, and how many cannot move. Until it is uncordoned.',
      ),
    version: z.string(),
    startedAt: timestampField,
    arch: z.string(),
    kernel: z.string(),
    cpu: z
      .strictObject({
        model: z.string(),
        fingerprint: z.string().describe('Hosts with the same one have the same CPU features.'),
      })
      .optional()
      .describe('Absent for a host of an earlier version.'),
    cpus: z.number(),
    load: z.strictObject({ running: z.int(), sandboxes: z.int(), cpu: z.number() }),
    memory: z.strictObject({ freeBytes: z.number(), totalBytes: z.number() }),
    disk: z.strictObject({ freeBytes: z.number(), totalBytes: z.number() }),
  })
  .meta({
    id: 'Node',
    examples: [
      {
        id: 'host-0a1b2c3d4e',
        address: 'http://10.0.0.1:7070',
        state: 'alive',
        isSelf: true,
        isCordoned: false,
        version: '0.1.0',
        startedAt: '2026-01-01T12:00:00.000Z',
        arch: 'x64',
        kernel: '6.12.0',
        cpu: { model: 'AMD EPYC 9354', fingerprint: '5d41402a' },
        cpus: 8,
        load: { running: 3, sandboxes: 120, cpu: 0.7 },
        memory: { freeBytes: 4_000_000_000, totalBytes: 16_000_000_000 },
        disk: { freeBytes: 20_000_000_000, totalBytes: 50_000_000_000 },
      },
    ],
  })

export const nodesSchema = z
  .strictObject({ items: z.array(nodeSchema).readonly() })
  .meta({ id: 'Nodes', examples: [{ items: [] }] })

export const cordonSchema = z
  .strictObject({ cordoned: z.boolean().default(true) })
  .meta({ id: 'Cordon', examples: [{ cordoned: false }] })

export const moveSchema = z
  .strictObject({ node: nodeIdField })
  .meta({ id: 'Move', examples: [{ node: 'host-0a1b2c3d4e' }] })

export const movedSchema = z
  .strictObject({ sandboxId: sandboxIdField, node: nodeIdField })
  .meta({ id: 'Moved', examples: [{ sandboxId: 'sb-k3v9x2m4p7q8r5t6', node: 'host-0a1b2c3d4e' }] })

export const drainedSchema = z
  .strictObject({
    moved: z.array(movedSchema).readonly(),
    left: z
      .array(z.strictObject({ sandboxId: sandboxIdField, reason: z.string() }))
      .readonly()
      .describe('Sandboxes that stay where they are, and why.'),
  })
  .meta({ id: 'Drained', examples: [{ moved: [], left: [] }] })

export type NodeAnswer = z.output<typeof nodeSchema>
export type NodesAnswer = z.output<typeof nodesSchema>
export type MovedAnswer = z.output<typeof movedSchema>
export type DrainedAnswer = z.output<typeof drainedSchema>
