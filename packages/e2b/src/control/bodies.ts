import { z } from 'zod'
import { ApiError } from '../http/api-error.ts'

/** Longer than any agent works; a larger number is probably in the wrong unit. */
const TIMEOUT_MAX_S = 366 * 24 * 3600
const METADATA_MAX_ENTRIES = 64
const TEXT_MAX = 4096

const timeoutField = z.int().min(0).max(TIMEOUT_MAX_S)

const networkBody = z.object({
  allowPublicTraffic: z.boolean().nullish(),
  allowOut: z.array(z.string()).nullish(),
  denyOut: z.array(z.string()).nullish(),
  maskRequestHost: z
    .string()
    .max(300)
    .regex(/^[\x21-\x7e]*$/, 'must be a host name')
    .nullish(),
  rules: z.record(z.string(), z.unknown()).nullish(),
  egressProxy: z.unknown().optional(),
})

export const createBody = z.object({
  templateID: z.string().min(1).max(TEXT_MAX),
  timeout: timeoutField.nullish(),
  autoPause: z.boolean().nullish(),
  autoPauseMemory: z.boolean().nullish(),
  autoResume: z.object({ enabled: z.boolean().nullish() }).nullish(),
  secure: z.boolean().nullish(),
  allow_internet_access: z.boolean().nullish(),
  network: networkBody.nullish(),
  metadata: z
    .record(z.string().max(TEXT_MAX), z.string().max(TEXT_MAX))
    .refine((entries) => Object.keys(entries).length <= METADATA_MAX_ENTRIES, {
      error: `must have at most ${METADATA_MAX_ENTRIES} entries`,
    })
    .nullish(),
  envVars: z.record(z.string(), z.string()).nullish(),
  mcp: z.unknown().optional(),
  iam: z.unknown().optional(),
  volumeMounts: z.array(z.object({ name: z.string(), path: z.string() })).nullish(),
})
export type CreateBody = z.output<typeof createBody>

export const connectBody = z.object({ timeout: timeoutField.nullish(), memory: z.boolean().nullish() })
export const resumeBody = z.object({ timeout: timeoutField.nullish(), autoPause: z.boolean().nullish() })
export const timeoutBody = z.object({ timeout: timeoutField })
export const refreshBody = z.object({ duration: timeoutField.nullish() })
export const pauseBody = z.object({ memory: z.boolean().nullish() })
export const forkBody = z.object({
  timeout: timeoutField.nullish(),
  count: z.int().min(1).max(100).nullish(),
})
export const snapshotBody = z.object({
  name: z.string().max(TEXT_MAX).nullish(),
  mode: z.enum(['full', 'filesystem']).nullish(),
})
export const networkUpdateBody = networkBody.extend({ allow_internet_access: z.boolean().nullish() })
export type NetworkBody = z.output<typeof networkUpdateBody>

/** Throws `ApiError` 400 that names the field. */
export function parseBody<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const field = issue?.path.join('.') || 'body'
  throw new ApiError(400, `${field}: ${issue?.message ?? 'is not valid'}`)
}
