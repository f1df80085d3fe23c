import {
  burrowLimitsSchema,
  ENV_MAX_BYTES,
  ENV_MAX_ENTRIES,
  isSandboxId,
  type SandboxId,
} from '@dormouse/contracts'
import { z } from 'zod'
import { volumeMountsSchema } from '../volume/volume-mounts.ts'

const envSchema = z
  .record(
    z.string().regex(/^[^=\0]+$/, 'must be a name without = and NUL'),
    z.string().regex(/^[^\0]*$/, 'must not contain NUL'),
  )
  .refine((env) => Object.keys(env).length <= ENV_MAX_ENTRIES, `has more than ${ENV_MAX_ENTRIES} entries`)
  .refine((env) => JSON.stringify(env).length <= ENV_MAX_BYTES, `is longer than ${ENV_MAX_BYTES} bytes`)

/** Input of `createBurrow`. */
export const createSchema = z.strictObject({
  sandboxId: z.custom<SandboxId>(
    (value) => typeof value === 'string' && isSandboxId(value),
    'is not a sandbox id',
  ),
  template: z.string(),
  limits: burrowLimitsSchema.prefault({}),
  user: z
    .string()
    // A name or a number, maybe with a group, as images have it.
    .regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?$/, 'is not a user name')
    .optional(),
  env: envSchema.optional(),
  volumes: volumeMountsSchema.prefault([]),
})

/** The part of it that a restore takes, too. */
export const bootSchema = createSchema.pick({ user: true, env: true }).extend({
  cwd: z
    .string()
    .regex(/^\/[^\0]*$/, 'is not an absolute path')
    .max(4096)
    .optional(),
})
