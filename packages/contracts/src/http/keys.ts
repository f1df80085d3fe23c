import { z } from 'zod'
import { MAX_CPUS } from '../limits.ts'
import { pageOf, pageQuery, timestampField } from './fields.ts'

const NAME_MAX_CHARACTERS = 100
const COUNT_MAX = 1_000_000

export const scopeField = z
  .enum(['read', 'run', 'admin'])
  .describe(
    '`read` sees, `run` also creates, changes and deletes, `admin` also manages keys and sees everybody’s.',
  )

const count = z.int().min(0).max(COUNT_MAX)
const bytes = z.int().min(0)
const cpus = z.number().positive().max(MAX_CPUS)

export const keyNameField = z
  .string()
  .min(1)
  .max(NAME_MAX_CHARACTERS)
  // It is printed in tables and logs.
  .regex(/^[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]*$/u, 'must not have control characters')

export const rateLimitSchema = z
  .strictObject({
    perSecond: z.number().positive().max(COUNT_MAX).describe('In the long run.'),
    burst: z.int().min(1).max(COUNT_MAX).describe('So many may come at once after a pause.'),
  })
  .meta({ id: 'RateLimit', examples: [{ perSecond: 50, burst: 100 }] })

export const keyQuotasSchema = z
  .strictObject({
    sandboxes: count.exactOptional(),
    running: count.exactOptional(),
    memoryBytes: bytes.exactOptional().describe('The memory limits of running sandboxes, summed.'),
    diskBytes: bytes.exactOptional().describe('Snapshots and volumes. Volumes are measured now and then.'),
    sandboxMemoryBytes: bytes
      .exactOptional()
      .describe('A ceiling: the memory limit that one sandbox may have. So are those that follow.'),
    sandboxCpus: cpus.exactOptional(),
    sandboxPids: count.exactOptional(),
    sandboxDiskBytes: bytes
      .exactOptional()
      .describe('What one sandbox may have written, and what one volume may hold.'),
    sandboxFiles: bytes.exactOptional(),
  })
  .describe('What is not named is not limited.')

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
      .describe('`null` takes one away; what is not named stays.'),
    rateLimit: rateLimitSchema.nullable().exactOptional(),
  })
  .refine((change) => Object.keys(change).length > 0, { error: 'names nothing to change' })
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
  .strictObject({ ...keyFields, key: z.string().describe('The whole key. Only this answer ever has it.') })
  .meta({ id: 'CreatedKey', examples: [{ ...EXAMPLE, key: 'dm_k3v9x2m4p7q8_…' }] })

export const keyPageSchema = pageOf(keySchema).meta({ id: 'KeyPage' })
export const listKeysQuery = z.strictObject(pageQuery)
export const keyParams = z.strictObject({
  id: z.string().regex(/^[2-9a-km-np-z]{12}$/, 'is not the id of a key'),
})

export type ScopeName = z.output<typeof scopeField>
export type CreateKeyBody = z.input<typeof createKeySchema>
export type UpdateKeyBody = z.input<typeof updateKeySchema>
export type KeyAnswer = z.output<typeof keySchema>
export type CreatedKeyAnswer = z.output<typeof createdKeySchema>
export type KeyPageAnswer = z.output<typeof keyPageSchema>
