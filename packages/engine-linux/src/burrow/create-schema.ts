import { burrowLimitsSchema, isSandboxId, type SandboxId } from '@dormouse/contracts'
import { z } from 'zod'
import { envSchema, programSettingsSchema, userSchema } from '../template/program-settings.ts'
import { volumeMountsSchema } from '../volume/volume-mounts.ts'

/** Input of `createBurrow`. */
export const createSchema = z.strictObject({
  sandboxId: z.custom<SandboxId>(
    (value) => typeof value === 'string' && isSandboxId(value),
    'is not a sandbox id',
  ),
  template: z.string(),
  limits: burrowLimitsSchema.prefault({}),
  user: userSchema.optional(),
  env: envSchema.optional(),
  volumes: volumeMountsSchema.prefault([]),
})

/** The part of it that a restore takes, too. */
export const bootSchema = createSchema
  .pick({ user: true, env: true })
  .extend({ image: programSettingsSchema.optional() })
