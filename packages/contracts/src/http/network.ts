import { z } from 'zod'
import { allowRuleProblem } from '../allow-rule.ts'
import { timestampField } from './fields.ts'

const RULES_MAX = 256
const RULE_MAX_CHARACTERS = 640

export const NETWORK_MODES = ['none', 'public', 'allow'] as const

export const networkModeField = z
  .enum(NETWORK_MODES)
  .describe(
    '`none`: nothing outside. `public`: everything on the internet, nothing that is private, of this host or of other sandboxes. `allow`: only what `allow` names.',
  )

const allowField = z
  .string()
  .max(RULE_MAX_CHARACTERS)
  .superRefine((text, context) => {
    const problem = allowRuleProblem(text)
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
  })

/** What a sandbox may reach. */
export const networkSchema = z
  .strictObject({
    mode: networkModeField,
    allow: z
      .array(allowField)
      .max(RULES_MAX)
      .default([])
      .describe(
        'With `allow`: host names (`*.` for all below one), addresses or ranges, each with ports behind a colon if not all are meant.',
      ),
  })
  .refine(({ mode, allow }) => mode === 'allow' || allow.length === 0, {
    error: 'is for the mode `allow` only',
    path: ['allow'],
  })
  .meta({
    id: 'Network',
    examples: [
      { mode: 'allow', allow: ['pypi.org:443', '*.pythonhosted.org:443', '203.0.113.0/24:5432'] },
      { mode: 'none' },
    ],
  })

export const networkViewSchema = z
  .strictObject({
    mode: networkModeField,
    allow: z.array(z.string()).readonly().describe('Empty unless the mode is `allow`.'),
    unavailable: z
      .string()
      .optional()
      .describe('Why it reaches nothing at all now, whatever the mode says. It works in all else.'),
  })
  .meta({ id: 'NetworkView', examples: [{ mode: 'public', allow: [] }] })

export const networkCountersSchema = z
  .strictObject({
    connections: z.int().describe('Connections to the outside that were let through.'),
    denied: z.int().describe('Connections and names that were refused.'),
    names: z.int().describe('Names that were asked for.'),
    bytesOut: z.int(),
    bytesIn: z.int(),
  })
  .describe('Since it was created, or since this server was started if that was later.')
  .meta({
    id: 'NetworkCounters',
    examples: [{ connections: 12, denied: 1, names: 9, bytesOut: 8_120, bytesIn: 1_204_511 }],
  })

/** Something that was refused, and how often. */
export const deniedSchema = z
  .strictObject({
    protocol: z.enum(['tcp', 'dns']),
    name: z.string().optional().describe('The name that was asked for, where it is known.'),
    address: z.string().optional(),
    port: z.int().optional(),
    reason: z.string(),
    count: z.int(),
  })
  .meta({
    id: 'Denied',
    examples: [
      { protocol: 'tcp', name: 'intranet.example.com', port: 443, reason: 'private address', count: 3 },
    ],
  })

export const networkReportSchema = networkViewSchema
  .extend({
    counters: networkCountersSchema,
    denied: z
      .array(deniedSchema.extend({ at: timestampField }))
      .readonly()
      .describe('What was refused last, newest first. The ledger has more.'),
  })
  .meta({
    id: 'NetworkReport',
    examples: [
      {
        mode: 'allow',
        allow: ['pypi.org:443'],
        counters: { connections: 12, denied: 3, names: 9, bytesOut: 8_120, bytesIn: 1_204_511 },
        denied: [
          {
            at: '2026-01-01T12:00:00.000Z',
            protocol: 'dns',
            name: 'example.com',
            reason: 'not allowed',
            count: 3,
          },
        ],
      },
    ],
  })

export type NetworkBody = z.input<typeof networkSchema>
export type NetworkMode = (typeof NETWORK_MODES)[number]
export type NetworkViewAnswer = z.output<typeof networkViewSchema>
export type NetworkCountersAnswer = z.output<typeof networkCountersSchema>
export type DeniedAnswer = z.output<typeof deniedSchema>
export type NetworkReportAnswer = z.output<typeof networkReportSchema>
