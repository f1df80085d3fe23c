import { z } from 'zod'
import { allowRuleProblem, denyRuleProblem } from '../allow-rule.ts'
import { timestampField } from './fields.ts'

const RULES_MAX = 256
const RULE_MAX_CHARACTERS = 640

const NETWORK_MODES = ['none', 'public', 'allow'] as const

const networkModeField = z
  .enum(NETWORK_MODES)
  .describe(
    '`none`: no network. `public`: the internet, but no private addresses, not this host and no other sandboxes. `allow`: only the destinations in `allow`.',
  )

const allowField = z
  .string()
  .max(RULE_MAX_CHARACTERS)
  .superRefine((text, context) => {
    const problem = allowRuleProblem(text)
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
  })

const denyField = z
  .string()
  .max(RULE_MAX_CHARACTERS)
  .superRefine((text, context) => {
    const problem = denyRuleProblem(text)
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
  })

/** The network policy of a sandbox. */
export const networkSchema = z
  .strictObject({
    mode: networkModeField,
    allow: z
      .array(allowField)
      .max(RULES_MAX)
      .default([])
      .describe(
        'For the mode `allow`: host names (`*.` for all subdomains), addresses or ranges, each optionally followed by a colon and ports. With `deny`: what is reachable nevertheless.',
      ),
    deny: z
      .array(denyField)
      .max(RULES_MAX)
      .exactOptional()
      .describe(
        'For the mode `public`: addresses or ranges that stay closed, each optionally followed by a colon and ports.',
      ),
  })
  .refine(({ mode, deny }) => mode === 'public' || deny === undefined || deny.length === 0, {
    error: 'is only allowed with the mode `public`',
    path: ['deny'],
  })
  .refine(({ mode, allow, deny = [] }) => mode === 'allow' || deny.length > 0 || allow.length === 0, {
    error: 'is only allowed with the mode `allow`, or with `deny`',
    path: ['allow'],
  })
  .meta({
    id: 'Network',
    examples: [
      { mode: 'allow', allow: ['pypi.org:443', '*.pythonhosted.org:443', '203.0.113.0/24:5432'] },
      { mode: 'public', deny: ['198.51.100.0/24'] },
      { mode: 'none' },
    ],
  })

export const networkViewSchema = z
  .strictObject({
    mode: networkModeField,
    allow: z.array(z.string()).readonly().describe('Empty unless the mode is `allow`, or with `deny`.'),
    deny: z.array(z.string()).readonly().optional().describe('What the mode `public` does not open.'),
    unavailable: z
      .string()
      .optional()
      .describe('Why the sandbox has no network now, whatever its mode. Everything else works.'),
  })
  .meta({ id: 'NetworkView', examples: [{ mode: 'public', allow: [] }] })

export const networkCountersSchema = z
  .strictObject({
    connections: z.int().describe('Allowed connections to the outside.'),
    denied: z.int().describe('Refused connections and name look-ups.'),
    names: z.int().describe('Name look-ups.'),
    bytesOut: z.int(),
    bytesIn: z.int(),
  })
  .describe('Counted since the sandbox was created or the server started, whichever is later.')
  .meta({
    id: 'NetworkCounters',
    examples: [{ connections: 12, denied: 1, names: 9, bytesOut: 8_120, bytesIn: 1_204_511 }],
  })

/** A refused connection or name look-up, and how often it was refused. */
export const deniedSchema = z
  .strictObject({
    protocol: z.enum(['tcp', 'dns']),
    name: z.string().optional().describe('The host name, if it is known.'),
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

/** A name that the policy allows to look up, but that gave the sandbox no address. */
const failedLookupSchema = z
  .strictObject({
    at: timestampField.describe('The last time.'),
    name: z.string(),
    reason: z.string(),
  })
  .meta({
    id: 'FailedLookup',
    examples: [{ at: '2026-01-01T12:00:00.000Z', name: 'exmaple.com', reason: 'the name does not exist' }],
  })

export const networkReportSchema = networkViewSchema
  .extend({
    counters: networkCountersSchema,
    denied: z
      .array(deniedSchema.extend({ at: timestampField }))
      .readonly()
      .describe('The latest denials, newest first. The ledger has more.'),
    failedLookups: z
      .array(failedLookupSchema)
      .readonly()
      .describe(
        'Names without an address that the sandbox looked up since the server started, newest first, each with the reason. Names that the policy refused are in `denied`.',
      ),
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
        failedLookups: [
          { at: '2026-01-01T12:00:00.000Z', name: 'exmaple.com', reason: 'the name does not exist' },
        ],
      },
    ],
  })

export type NetworkBody = z.input<typeof networkSchema>
export type NetworkMode = (typeof NETWORK_MODES)[number]
export type NetworkCountersAnswer = z.output<typeof networkCountersSchema>
export type DeniedAnswer = z.output<typeof deniedSchema>
export type FailedLookupAnswer = z.output<typeof failedLookupSchema>
export type NetworkReportAnswer = z.output<typeof networkReportSchema>
