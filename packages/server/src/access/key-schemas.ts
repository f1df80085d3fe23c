import { z } from 'zod'
import { SCOPES } from './access.ts'

const MAX_NAME_CHARACTERS = 100
const MAX_COUNT = 1_000_000
const MAX_RATE = 1_000_000

const count = z.int().min(0).max(MAX_COUNT)
const bytes = z.int().min(0)

export const keyNameSchema = z
  .string()
  .min(1)
  .max(MAX_NAME_CHARACTERS)
  // It is printed in tables and logs.
  .regex(/^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]*$/u, 'must not have control characters')

export const rateLimitSchema = z.strictObject({
  perSecond: z.number().positive().max(MAX_RATE),
  burst: z.int().min(1).max(MAX_RATE),
})

export const keyQuotasSchema = z
  .strictObject({ sandboxes: count, running: count, memoryBytes: bytes, diskBytes: bytes })
  .partial()

/** The body of `POST /v1/keys`. */
export const createKeySchema = z.strictObject({
  name: keyNameSchema,
  scopes: z.array(z.enum(SCOPES)).min(1).max(SCOPES.length).default(['run']),
  quotas: keyQuotasSchema.optional(),
  rateLimit: rateLimitSchema.optional(),
})

/** The body of `PATCH /v1/keys/{id}`: null takes a quota away. */
export const updateKeySchema = z.strictObject({
  name: keyNameSchema.optional(),
  quotas: z
    .strictObject({
      sandboxes: count.nullable(),
      running: count.nullable(),
      memoryBytes: bytes.nullable(),
      diskBytes: bytes.nullable(),
    })
    .partial()
    .optional(),
  rateLimit: rateLimitSchema.nullable().optional(),
})
