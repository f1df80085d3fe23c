import { z } from 'zod'
import {
  booleanTextOr,
  integerText,
  integerTextOr,
  ownSnapshotRefField,
  pageOf,
  sandboxIdField,
  textField,
  timestampField,
} from './fields.ts'
import { deniedSchema, networkCountersSchema } from './network.ts'
import { FORK_MAX_COUNT, sandboxDamageSchema, sandboxSchema, stateField, tierField } from './sandboxes.ts'

/** A forgotten hold keeps a sandbox awake for a day at most. */
const HOLD_MAX_MS = 24 * 3600 * 1000
const LEDGER_LIMIT_MAX = 1000

export const standbySchema = z
  .strictObject({
    tier: tierField.default('frozen'),
    durability: z
      .enum(['host', 'cluster'])
      .default('host')
      .describe('`cluster`: returns when the snapshot is in the depot of the cluster, too.'),
  })
  .meta({ id: 'Standby', examples: [{ tier: 'stored' }] })

export const forkSchema = z
  .strictObject({
    count: z.int().min(1).max(FORK_MAX_COUNT).default(1),
    reseed: z.boolean().default(true).describe('Reseed the random number generators of each child.'),
  })
  .meta({ id: 'Fork', examples: [{ count: 3 }] })

export const forkAnswerSchema = z
  .strictObject({ children: z.array(sandboxSchema).readonly() })
  .meta({ id: 'Forked' })

export const rollbackSchema = z
  .strictObject({ snapshotId: ownSnapshotRefField })
  .meta({ id: 'Rollback', examples: [{ snapshotId: 'before-upgrade' }] })

export const promoteSchema = z
  .strictObject({
    keep: z
      .boolean()
      .default(false)
      .describe(
        'Keep the child as a sandbox of its own. By default it is deleted: its parent continues as it.',
      ),
  })
  .meta({ id: 'Promote', examples: [{ keep: true }] })

export const holdSchema = z
  .strictObject({
    what: textField({ maxBytes: 200, minLength: 1 }).describe('The reason, shown in `why`.'),
    forMs: z.int().min(1).max(HOLD_MAX_MS),
  })
  .meta({ id: 'Hold', examples: [{ what: 'waiting for a webhook', forMs: 60_000 }] })

export const holdAnswerSchema = z
  .strictObject({ what: z.string(), until: timestampField })
  .meta({ id: 'Held', examples: [{ what: 'waiting for a webhook', until: '2026-01-01T12:01:00.000Z' }] })

export const whySchema = z
  .strictObject({
    state: stateField,
    tier: tierField.optional(),
    summary: z.string().describe('A sentence for people.'),
    work: z
      .array(
        z.strictObject({
          kind: z.enum(['run', 'call', 'stream', 'connection', 'process', 'cpu', 'hold', 'recent']),
          what: z.string(),
          since: timestampField,
        }),
      )
      .readonly(),
    sleepsAt: timestampField
      .optional()
      .describe('When the sandbox goes to standby if nothing keeps it awake.'),
    storesAt: timestampField.optional(),
    expiresAt: timestampField.optional(),
    wakesAt: timestampField.optional().describe('When a timer wakes the sandbox, while it sleeps.'),
    cannotSleep: z
      .strictObject({ reason: z.string(), retryAt: timestampField })
      .optional()
      .describe('The last attempt to save the sandbox was refused.'),
    checkpoint: z
      .strictObject({
        lastAt: timestampField.optional().describe('When this server last took one.'),
        pauseMs: z.number().optional().describe('How long the last one stopped the sandbox.'),
        nextAt: timestampField.optional().describe('Absent while the sandbox sleeps.'),
        refused: z.string().optional().describe('Why the last attempt failed. It is repeated at `nextAt`.'),
      })
      .optional()
      .describe('Of a sandbox with `checkpointEveryMs`.'),
    memory: z
      .strictObject({
        event: z.enum(['memory_high', 'out_of_memory', 'paused']),
        at: timestampField,
        limitBytes: z.int(),
        peakBytes: z
          .int()
          .describe('The most memory that the sandbox used since it woke, page cache included.'),
        message: z.string(),
      })
      .optional()
      .describe(
        '`memory_high`: it is near its memory limit. `out_of_memory`: Linux killed one of its processes. `paused`: it sleeps at its limit until the limit is raised.',
      ),
    copied: z
      .array(z.strictObject({ program: z.string(), bytes: z.int() }))
      .readonly()
      .optional()
      .describe(
        'Programs without the guard, such as static ones, while the sandbox is in memory. Their memory is copied at every sleep and wake; that of others is mapped.',
      ),
    damage: sandboxDamageSchema.optional(),
  })
  .meta({
    id: 'Why',
    examples: [
      {
        state: 'running',
        summary: 'Awake: a run in context "default" for 3 s.',
        work: [{ kind: 'run', what: 'run-k3v9x2m4p7q8r5t6', since: '2026-01-01T12:00:00.000Z' }],
      },
    ],
  })

const ledgerEntrySchema = z
  .strictObject({
    seq: z.int(),
    at: timestampField,
    event: z.enum([
      'created',
      'slept',
      'stored',
      'woke',
      'forked',
      'snapshot',
      'rolled_back',
      'adopted',
      'lost',
      'refused',
      'failed',
      'changed',
      'denied',
      'disconnected',
      'damaged',
      'memory_high',
      'out_of_memory',
    ]),
    cause: z.string(),
    tier: tierField.optional(),
    latencyMs: z.number().optional().describe('How long the transition took. Every sleep and wake has it.'),
    bytes: z
      .int()
      .optional()
      .describe(
        'For a sleep: the size of the snapshot. For a wake: the bytes restored, 0 from `frozen`, which is in memory.',
      ),
    detail: z
      .string()
      .optional()
      .describe(
        'In words. For `disconnected`: the connections that ended although neither side had closed them. Its `cause` says when: `sleep`, `wake`, `expired` (`keepAsleepMs` had passed), `rollback`, or `fork` (they are those of the parent).',
      ),
    denied: deniedSchema.optional().describe('For `denied`: what the network policy refused.'),
  })
  .meta({
    id: 'LedgerEntry',
    examples: [
      {
        seq: 4,
        at: '2026-01-01T12:00:00.000Z',
        event: 'woke',
        cause: 'run',
        tier: 'stored',
        latencyMs: 24.8,
        bytes: 46_100_000,
      },
    ],
  })

export const ledgerPageSchema = pageOf(ledgerEntrySchema).meta({ id: 'LedgerPage' })

/** The cursor of a ledger page is a `seq`: the next page begins after it. */
export const ledgerQuery = z.strictObject({
  after: integerText({ min: -1, max: Number.MAX_SAFE_INTEGER })
    .exactOptional()
    .describe('Only entries after this `seq`.'),
  cursor: integerText({ min: -1, max: Number.MAX_SAFE_INTEGER })
    .exactOptional()
    .describe('`nextCursor` of the previous page. Takes precedence over `after`.'),
  limit: integerTextOr(100, { min: 1, max: LEDGER_LIMIT_MAX }),
})

export const sandboxMetricsQuery = z.strictObject({
  memory: booleanTextOr(false).describe(
    'Also measure how much memory is private to the sandbox. Reads the state of every page.',
  ),
})

export const sandboxMetricsSchema = z
  .strictObject({
    sandboxId: sandboxIdField,
    state: stateField,
    tier: tierField.optional(),
    usage: z
      .strictObject({
        memoryBytes: z.int(),
        memoryPeakBytes: z.int(),
        cpuMs: z.number(),
        pids: z.int(),
        oomKills: z.int(),
      })
      .optional()
      .describe('Absent while the sandbox is not in memory.'),
    memory: z
      .strictObject({
        privateBytes: z.int().describe('Memory that only this sandbox uses.'),
        sharedBytes: z
          .int()
          .describe(
            'Mapped file pages: programs, and memory shared with its snapshot and sibling sandboxes. Counted once for each process that maps them.',
          ),
        proportionalBytes: z
          .int()
          .describe('Its share when each page is divided by the number of processes that map it.'),
        at: timestampField.describe('When it was measured. The server may return a recent measurement.'),
      })
      .optional()
      .describe('Only with `memory=true`, and while the sandbox is in memory.'),
    network: networkCountersSchema,
  })
  .meta({
    id: 'SandboxMetrics',
    examples: [
      {
        sandboxId: 'sb-k3v9x2m4p7q8r5t6',
        state: 'running',
        usage: { memoryBytes: 94_000_000, memoryPeakBytes: 120_000_000, cpuMs: 812.5, pids: 6, oomKills: 0 },
        network: { connections: 12, denied: 1, names: 9, bytesOut: 8_120, bytesIn: 1_204_511 },
      },
    ],
  })

export type StandbyBody = z.input<typeof standbySchema>
export type ForkBody = z.input<typeof forkSchema>
export type ForkAnswer = z.output<typeof forkAnswerSchema>
export type PromoteBody = z.input<typeof promoteSchema>
export type HoldAnswer = z.output<typeof holdAnswerSchema>
export type WhyAnswer = z.output<typeof whySchema>
export type LedgerPageAnswer = z.output<typeof ledgerPageSchema>
export type SandboxMetricsAnswer = z.output<typeof sandboxMetricsSchema>
