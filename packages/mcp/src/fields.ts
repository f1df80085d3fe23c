import type { SandboxInfo } from 'dormouse'
import { z } from 'zod'
import { TIMEOUT_MAX_MS } from './limits.ts'

/** Inputs and outputs that several tools share. */

export const sandboxInput = z
  .string()
  .optional()
  .describe('Id or name of a sandbox. If not given: the sandbox of this conversation, created on first use.')

export const timeoutInput = z
  .int()
  .min(1)
  .max(TIMEOUT_MAX_MS)
  .optional()
  .describe('Stop it after so many milliseconds. If not given, it may take as long as it takes.')

export const noteOutput = z.string().optional().describe('Something unexpected that you should know.')

export const sandboxOutput = z.object({
  id: z.string(),
  name: z.string().optional(),
  state: z.string().describe('`running`, or `standby` when it sleeps; any call wakes it.'),
  tier: z.string().optional().describe('How deep it sleeps: `frozen` or `stored`.'),
  template: z.string(),
  createdAt: z.string(),
  lastActiveAt: z.string(),
  forkedFrom: z.string().optional(),
  lostSince: z.string().optional().describe('Its processes died: what it did after this moment is gone.'),
  damage: z
    .object({ reason: z.string(), rollbackTo: z.string().optional() })
    .optional()
    .describe(
      'Its saved state is damaged and it cannot be woken. `rollbackTo` is a snapshot to roll back to.',
    ),
})

export function describeSandbox(info: SandboxInfo): z.input<typeof sandboxOutput> {
  const { id, name, state, tier, template, createdAt, lastActiveAt, forkedFrom, lostSince } = info
  const damage = info.damage && { reason: info.damage.reason, rollbackTo: info.damage.rollbackTo }
  return { id, name, state, tier, template, createdAt, lastActiveAt, forkedFrom, lostSince, damage }
}
