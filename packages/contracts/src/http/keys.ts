import { z } from 'zod'
import { MAX_CPUS } from '../limits.ts'
import { pageOf, pageQuery, timestampField } from './fields.ts'

const NAME_MAX_CHARACTERS = 100
const COUNT_MAX = 1_000_000

const scopeField = z
  .enum(['read', 'run', 'admin'])
  .describe(
    '`read` can list and read. `run` can also create, change, run and delete. `admin` can also manage keys and use what belongs to other keys.',
  )

const count = z.int().min(0).max(COUNT_MAX)
const bytes = z.int().min(0)
const cpus = z.number().positive().max(MAX_CPUS)

const keyNameField = z
  .string()
  .min(1)
  .max(NAME_MAX_CHARACTERS)
  // The name is printed in tables and logs.
  .regex(/^[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]*$/u, 'must not have control characters')

const rateLimitSchema = z
  .strictObject({
    perSecond: z.number().positive().max(COUNT_MAX).describe('Requests per second, on average.'),
    burst: z.int().min(1).max(COUNT_MAX).describe('Requests that may come at once after a pause.'),
  })
  .meta({ id: 'RateLimit', examples: [{ perSecond: 50, burst: 100 }] })

const keyQuotasSchema = z
  .strictObject({
    sandboxes: count.exactOptional(),
    running: count.exactOptional(),
    memoryBytes: bytes.exactOptional().describe('Sum of the memory limits of all running sandboxes.'),
    diskBytes: bytes
      .exactOptional()
      .describe('Bytes of snapshots and volumes. Volumes are measured periodically.'),
    sandboxMemoryBytes: bytes
      .exactOptional()
      .describe('Ceiling: the highest memory limit of one sandbox. The following fields are ceilings too.'),
    sandboxCpus: cpus.exactOptional(),
    sandboxPids: count.exactOptional(),
    sandboxDiskBytes: bytes
      .exactOptional()
      .describe('Ceiling for the bytes that one sandbox may write, and that one volume may hold.'),
    sandboxFiles: bytes.exactOptional(),
  })
  .describe('Fields that are absent are not limited.')

export const createKeySchema = z
  .strictObject({
    name: keyNameField,
    scopes: z.array(scopeField).min(1).max(scopeField.options.length).default(['run']),
    quotas: keyQuotasSchema.exactOptional(),
    rateLimit: rateLimitSchema.exactOptional(),
  })
  .meta({ id: 'CreateKey', examples: [{ name: 'ci', scopes: ['run'], quotas: { sandboxes: 20 } }] })

export const updateKeySchema = z
  .strictObject({
    name: keyNameField.exactOptional(),
    quotas: z
      .strictObject({
        sandboxes: count.nullable().exactOptional(),
        running: count.nullable().exactOptional(),
        memoryBytes: bytes.nullable().exactOptional(),
        diskBytes: bytes.nullable().exactOptional(),
        sandboxMemoryBytes: bytes.nullable().exactOptional(),
        sandboxCpus: cpus.nullable().exactOptional(),
        sandboxPids: count.nullable().exactOptional(),
        sandboxDiskBytes: bytes.nullable().exactOptional(),
        sandboxFiles: bytes.nullable().exactOptional(),
      })
      .exactOptional()
      .describe('`null` removes a quota. Absent fields stay unchanged.'),
    rateLimit: rateLimitSchema.nullable().exactOptional(),
  })
  .refine((change) => Object.keys(change).length > 0, { error: 'must name at least one field to change' })
  .meta({ id: 'UpdateKey', examples: [{ quotas: { sandboxes: 50, running: null } }] })

const keyFields = {
  id: z.string(),
  name: z.string(),
  scopes: z.array(scopeField).readonly(),
  quotas: z.strictObject({
    sandboxes: z.int().optional(),
    running: z.int().optional(),
    memoryBytes: z.int().optional(),
    diskBytes: z.int().optional(),
    sandboxMemoryBytes: z.int().optional(),
    sandboxCpus: z.number().optional(),
    sandboxPids: z.int().optional(),
    sandboxDiskBytes: z.int().optional(),
    sandboxFiles: z.int().optional(),
  }),
  rateLimit: z.strictObject({ perSecond: z.number(), burst: z.int() }).optional(),
  createdAt: timestampField,
  revokedAt: timestampField.optional(),
}

const EXAMPLE = {
  id: 'k3v9x2m4p7q8',
  name: 'ci',
  scopes: ['run'],
  quotas: { sandboxes: 20 },
  createdAt: '2026-01-01T12:00:00.000Z',
}

export const keySchema = z.strictObject(keyFields).meta({ id: 'Key', examples: [EXAMPLE] })
export const createdKeySchema = z
  .strictObject({ ...keyFields, key: z.string().describe('The whole key. No other response contains it.') })
  .meta({ id: 'CreatedKey', examples: [{ ...EXAMPLE, key: 'dm_k3v9x2m4p7q8_…' }] })

export const keyPageSchema = pageOf(keySchema).meta({ id: 'KeyPage' })
export const listKeysQuery = z.strictObject(pageQuery)
export const keyParams = z.strictObject({
  id: z.string().regex(/^[2-9a-km-np-z]{12}$/, 'is not the id of a key'),
})

export type CreateKeyBody = z.input<typeof createKeySchema>
export type UpdateKeyBody = z.input<typeof updateKeySchema>
export type KeyAnswer = z.output<typeof keySchema>
export type CreatedKeyAnswer = z.output<typeof createdKeySchema>
