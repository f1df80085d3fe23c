import { z } from 'zod'

const TEXT_MAX = 64 * 1024
const STEPS_MAX = 400

export const askBody = z.object({
  name: z.string().max(256).nullish(),
  alias: z.string().max(256).nullish(),
  tags: z.array(z.string().max(256)).max(100).nullish(),
  cpuCount: z.int().min(1).max(1024).nullish(),
  memoryMB: z.int().min(128).max(16_777_216).nullish(),
})

const stepBody = z.object({
  type: z.string(),
  args: z.array(z.string().max(TEXT_MAX)).max(1000).nullish(),
  filesHash: z.string().max(256).nullish(),
  force: z.boolean().nullish(),
})
export type StepBody = z.output<typeof stepBody>

export const startBody = z.object({
  fromImage: z.string().max(500).nullish(),
  fromTemplate: z.string().max(500).nullish(),
  fromImageRegistry: z
    .object({ type: z.string(), username: z.string().nullish(), password: z.string().nullish() })
    .nullish(),
  force: z.boolean().nullish(),
  steps: z.array(stepBody).max(STEPS_MAX).nullish(),
  startCmd: z.string().max(TEXT_MAX).nullish(),
  readyCmd: z.string().max(TEXT_MAX).nullish(),
})
export type StartBody = z.output<typeof startBody>

export const assignBody = z.object({ target: z.string(), tags: z.array(z.string()).min(1).max(100) })
export const unassignBody = z.object({ name: z.string(), tags: z.array(z.string()).min(1).max(100) })
export const publishBody = z.object({ public: z.boolean().nullish() })
