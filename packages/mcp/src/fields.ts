import type { NetworkOptions, SandboxInfo } from 'dormouse'
import { z } from 'zod'
import { TIMEOUT_MAX_MS, WAIT_DEFAULT_MS } from './limits.ts'

/** Inputs and outputs of several tools. */

export const sandboxInput = z
  .string()
  .min(1)
  .optional()
  .describe('Id or name of a sandbox. Default: the sandbox of this conversation, created on first use.')

export const timeoutInput = z
  .int()
  .min(1)
  .max(TIMEOUT_MAX_MS)
  .optional()
  .describe('Stop it after this many milliseconds. Default: no limit.')

export const waitInput = z
  .int()
  .min(0)
  .max(TIMEOUT_MAX_MS)
  .optional()
  .describe(
    `How many milliseconds to wait for its end. Then returns its id and the output so far; it continues, and get_run \
fetches the rest. 0: run it in the background. Default: ${WAIT_DEFAULT_MS}.`,
  )

export const noteOutput = z.string().optional().describe('Something unexpected that you must know.')

export const sandboxOutput = z.object({
  id: z.string(),
  name: z.string().optional(),
  state: z.string().describe('`running`, or `standby` while it sleeps. Any call wakes it.'),
  tier: z.string().optional().describe('Where it sleeps: `frozen` in memory, `stored` on disk.'),
  template: z.string(),
  isolation: z.string().describe('`process`, or `microvm` for a virtual machine.'),
  createdAt: z.string(),
  lastActiveAt: z.string(),
  forkedFrom: z.string().optional(),
  lostSince: z.string().optional().describe('Its processes died: its state after this time is lost.'),
  damage: z
    .object({ reason: z.string(), rollbackTo: z.string().optional() })
    .optional()
    .describe('Its saved state is damaged, so it cannot wake. Roll back to the snapshot `rollbackTo`.'),
})

export function describeSandbox(info: SandboxInfo): z.input<typeof sandboxOutput> {
  const { id, name, state, tier, template, isolation } = info
  const { createdAt, lastActiveAt, forkedFrom, lostSince } = info
  const damage = info.damage && { reason: info.damage.reason, rollbackTo: info.damage.rollbackTo }
  const times = { createdAt, lastActiveAt, forkedFrom, lostSince }
  return { id, name, state, tier, template, isolation, ...times, damage }
}

export function networkOf(network: 'public' | 'none' | string[]): NetworkOptions {
  return typeof network === 'string' ? { mode: network } : { mode: 'allow', allow: network }
}
