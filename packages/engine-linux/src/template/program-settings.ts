import { ENV_MAX_BYTES, ENV_MAX_ENTRIES } from '@dormouse/contracts'
import { z } from 'zod'

export const envSchema = z
  .record(
    z.string().regex(/^[^=\0]+$/, 'must be a name without = and NUL'),
    z.string().regex(/^[^\0]*$/, 'must not contain NUL'),
  )
  .refine((env) => Object.keys(env).length <= ENV_MAX_ENTRIES, `has more than ${ENV_MAX_ENTRIES} entries`)
  .refine((env) => JSON.stringify(env).length <= ENV_MAX_BYTES, `is longer than ${ENV_MAX_BYTES} bytes`)

/** A name or a number, maybe with a group, as images have it. */
export const userSchema = z
  .string()
  .regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?$/, 'is not a user name')

/** How programs of an image start. Snapshots and burrows of an image have them. */
export const programSettingsSchema = z.strictObject({
  user: userSchema,
  env: envSchema,
  cwd: z
    .string()
    .regex(/^\/[^\0]*$/, 'is not an absolute path')
    .max(4096),
})
