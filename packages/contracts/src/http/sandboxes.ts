import { z } from 'zod'
import { burrowLimitsSchema } from '../burrow-limits.ts'
import {
  DEFAULT_CPUS,
  DEFAULT_DISK_BYTES,
  DEFAULT_FILES,
  DEFAULT_MEMORY_BYTES,
  DEFAULT_PIDS,
  ENV_MAX_BYTES,
  ENV_MAX_ENTRIES,
  MAX_DISK_BYTES,
  MAX_FILES,
  MIN_DISK_BYTES,
  MIN_FILES,
} from '../limits.ts'
import { NEXT_STATES, type SandboxState } from '../sandbox-state.ts'
import {
  ISOLATION_TEXT,
  isolationField,
  nameField,
  pageOf,
  pageQuery,
  sandboxIdField,
  snapshotIdField,
  snapshotRefField,
  textField,
  timestampField,
} from './fields.ts'
import { networkSchema, networkViewSchema } from './network.ts'
import { sandboxSecretsField } from './secrets.ts'
import { volumesField } from './volume-mounts.ts'

const STATES = Object.keys(NEXT_STATES) as [SandboxState, ...SandboxState[]]

export const DEFAULT_TEMPLATE = 'python'
/** One hundred years. A longer time is probably a wrong unit. */
const DURATION_MAX_MS = 100 * 365 * 24 * 3600 * 1000
const METADATA_MAX_ENTRIES = 64
const METADATA_KEY_MAX_BYTES = 128
const METADATA_VALUE_MAX_BYTES = 2048
export const FORK_MAX_COUNT = 100

const durationMs = z.int().min(0).max(DURATION_MAX_MS)
export const tierField = z
  .enum(['frozen', 'stored'])
  .describe('How the sandbox sleeps: `frozen` in memory, or `stored` on disk only.')
export const stateField = z.enum(STATES)

const metadataKey = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._/-]*$/, 'must be letters, digits, ".", "_", "/" or "-"')
  .max(METADATA_KEY_MAX_BYTES)
const metadataField = z
  .record(metadataKey, textField({ maxBytes: METADATA_VALUE_MAX_BYTES }))
  .refine((entries) => Object.keys(entries).length <= METADATA_MAX_ENTRIES, {
    error: `must have at most ${METADATA_MAX_ENTRIES} entries`,
  })

const envName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be a name of letters, digits and "_"')
  .max(256)
export const envField = z
  .record(envName, textField({ maxBytes: ENV_MAX_BYTES }))
  .refine((entries) => Object.keys(entries).length <= ENV_MAX_ENTRIES, {
    error: `must have at most ${ENV_MAX_ENTRIES} entries`,
  })
  .refine((entries) => JSON.stringify(entries).length <= ENV_MAX_BYTES, {
    error: `must be at most ${ENV_MAX_BYTES} bytes together`,
  })

const atMemoryLimitField = z
  .enum(['kill', 'pause'])
  .describe(
    'What happens at the memory limit. `kill`: Linux kills a process. `pause`: the sandbox is saved and sleeps; raising the limit wakes it, and its run continues.',
  )
const CHECKPOINT_MIN_MS = 1_000
export const checkpointEveryField = durationMs
  .refine((ms) => ms === 0 || ms >= CHECKPOINT_MIN_MS, {
    error: `must be 0 or at least ${CHECKPOINT_MIN_MS}`,
  })
  .describe(
    'Saves the sandbox this often while it runs, so that a crash of the host or of its processes costs at most this much. It then wakes by itself at its last checkpoint. Each checkpoint stops the sandbox for about a quarter of a second and waits for a moment without calls and connections from outside, at most as long again. An ephemeral sandbox is not checkpointed. 0: never.',
  )
const expiresField = z
  .strictObject({
    afterMs: durationMs.min(1).exactOptional().describe('Time after the creation of the sandbox.'),
    idleMs: durationMs.min(1).exactOptional().describe('Time after the last use of the sandbox.'),
    at: timestampField.exactOptional(),
    action: z.enum(['delete', 'standby']),
  })
  .refine(({ afterMs, idleMs, at }) => afterMs !== undefined || idleMs !== undefined || at !== undefined, {
    error: 'must have `afterMs`, `idleMs` or `at`',
  })
  .describe(
    'When the sandbox is deleted automatically, or put to standby once, whatever it does then. Default: never.',
  )

const diskBytesField = z
  .int()
  .min(MIN_DISK_BYTES)
  .max(MAX_DISK_BYTES)
  .describe(
    'How many bytes the sandbox may write. Above the limit it is put to standby without loss, and cannot wake before the limit is raised.',
  )
const filesField = z
  .int()
  .min(MIN_FILES)
  .max(MAX_FILES)
  .describe(
    'How many files, directories and links the sandbox may create. Above the limit it is put to standby, as for `diskBytes`.',
  )

const limitFields = {
  memoryBytes: burrowLimitsSchema.shape.memoryBytes.unwrap().exactOptional(),
  cpus: burrowLimitsSchema.shape.cpus.unwrap().exactOptional(),
  pids: burrowLimitsSchema.shape.pids.unwrap().exactOptional(),
  diskBytes: diskBytesField.exactOptional(),
  files: filesField.exactOptional(),
}

const limitsSchema = z
  .strictObject(limitFields)
  .default({})
  .describe(
    'Defaults: half of the memory of the host (1 to 8 GiB) and half of its CPUs (1 to 4), 512 processes, 10 GiB on disk, 1,000,000 files, or the ceiling of the key or server if that is lower. Values above a ceiling are refused with `limit_reached`.',
  )
  .meta({
    examples: [
      {
        memoryBytes: DEFAULT_MEMORY_BYTES,
        cpus: DEFAULT_CPUS,
        pids: DEFAULT_PIDS,
        diskBytes: DEFAULT_DISK_BYTES,
        files: DEFAULT_FILES,
      },
    ],
  })

/** How long the gate keeps the connections of a sleeping sandbox by default. */
const DEFAULT_KEEP_ASLEEP_MS = 60 * 60 * 1000
const MAX_KEEP_ASLEEP_MS = 7 * 24 * 60 * 60 * 1000
const keepAsleepField = z
  .int()
  .min(0)
  .max(MAX_KEEP_ASLEEP_MS)
  .describe(
    'How long connections to the outside are kept while the sandbox sleeps, at most a week. Then they end. 0: they end at every sleep, snapshot and fork.',
  )
const wakeOnDataField = z
  .boolean()
  .describe('Whether the sandbox wakes when data arrives on such a connection, at most once in ten seconds.')

/** What a sandbox has whose creator does not say. */
export const DEFAULT_CONNECTIONS = { keepAsleepMs: DEFAULT_KEEP_ASLEEP_MS, wakeOnData: false } as const

export const createSandboxSchema = z
  .strictObject({
    template: nameField.exactOptional().describe(`Default: \`${DEFAULT_TEMPLATE}\`.`),
    snapshot: snapshotRefField
      .exactOptional()
      .describe(
        'Start from this snapshot instead of a template: its id, or `SANDBOX/NAME`. Limits that are not given are those of the snapshot.',
      ),
    isolation: isolationField
      .exactOptional()
      .describe(`${ISOLATION_TEXT} Default: the setting of the server, or that of the snapshot.`),
    name: nameField.exactOptional().describe('Unique among the sandboxes of this key.'),
    getOrCreate: z
      .boolean()
      .default(false)
      .describe('Return the existing sandbox of that `name` (200), unchanged, if there is one.'),
    metadata: metadataField.default({}),
    env: envField.default({}).describe('Environment variables of all processes inside.'),
    idleTimeoutMs: durationMs
      .exactOptional()
      .describe(
        'The sandbox goes to standby after this time without work. 0: never. Default: the setting of the server, normally 15 seconds.',
      ),
    storeAfterMs: durationMs
      .exactOptional()
      .describe(
        'How long a sleeping sandbox stays `frozen` in memory at most, while the server has room for it, before it is `stored` on disk only. Default: the setting of the server, normally a week.',
      ),
    maxBackgroundMs: durationMs
      .exactOptional()
      .describe(
        'How long background processes keep the sandbox awake after its last use. 0: they never do. Default: the setting of the server, normally 24 hours.',
      ),
    wakeOnTimer: z
      .boolean()
      .default(false)
      .describe(
        'While the sandbox sleeps, its clocks and timers continue, and it wakes for the earliest timer, `sleep` or time-out of its processes. Otherwise they stand still.',
      ),
    atMemoryLimit: atMemoryLimitField.default('kill'),
    checkpointEveryMs: checkpointEveryField.default(0),
    connections: z
      .strictObject({
        keepAsleepMs: keepAsleepField.default(DEFAULT_KEEP_ASLEEP_MS),
        wakeOnData: wakeOnDataField.default(false),
      })
      .default(DEFAULT_CONNECTIONS)
      .describe(
        'Connections to the outside outlive a sleep. Default: kept for an hour, and none wakes the sandbox.',
      ),
    expires: expiresField.exactOptional(),
    limits: limitsSchema,
    volumes: volumesField.default([]),
    network: networkSchema
      .exactOptional()
      .describe('What the sandbox may reach. Default: the setting of the server, normally `public`.'),
    secrets: sandboxSecretsField
      .default([])
      .describe(
        'Names of secrets. Code inside sees placeholders in the environment; requests to the domains of a secret carry its value.',
      ),
    ephemeral: z
      .boolean()
      .default(false)
      .describe(
        'The sandbox is deleted after an hour without use, or as `expires` says. Clients delete it when they close it. Until then it sleeps and wakes like any other.',
      ),
  })
  .refine(({ getOrCreate, name }) => !getOrCreate || name !== undefined, {
    error: 'is required with `getOrCreate`',
    path: ['name'],
  })
  .refine(({ snapshot, template }) => snapshot === undefined || template === undefined, {
    error: 'cannot be given together with `template`',
    path: ['snapshot'],
  })
  .meta({
    id: 'CreateSandbox',
    examples: [{ template: 'python', name: 'analysis', metadata: { user: '42' }, idleTimeoutMs: 15_000 }],
  })

export const updateSandboxSchema = z
  .strictObject({
    name: nameField.nullable().exactOptional().describe('`null` removes the name.'),
    metadata: metadataField.exactOptional().describe('Replaces all metadata.'),
    idleTimeoutMs: durationMs.exactOptional(),
    storeAfterMs: durationMs.exactOptional(),
    maxBackgroundMs: durationMs.exactOptional(),
    wakeOnTimer: z
      .boolean()
      .exactOptional()
      .describe('Applies from the next sleep on; `false` applies at once.'),
    atMemoryLimit: atMemoryLimitField.exactOptional(),
    checkpointEveryMs: checkpointEveryField.exactOptional(),
    connections: z
      .strictObject({
        keepAsleepMs: keepAsleepField.exactOptional(),
        wakeOnData: wakeOnDataField.exactOptional(),
      })
      .exactOptional()
      .describe('Absent fields stay unchanged. `keepAsleepMs` applies from the next sleep on.'),
    expires: expiresField.nullable().exactOptional().describe('`null`: the sandbox never expires.'),
    ephemeral: z.boolean().exactOptional(),
    network: networkSchema
      .exactOptional()
      .describe('Replaces the network policy. Forbidden connections are closed before the call returns.'),
    secrets: sandboxSecretsField
      .exactOptional()
      .describe(
        'Replaces the list of secrets. Values apply at once. Processes started from now on have the variables of new secrets.',
      ),
    volumes: volumesField
      .exactOptional()
      .describe(
        'Replaces the volumes. An awake sandbox is saved and continues with the new ones, which stops it for less than a second: files that its processes have open on a volume that is gone look deleted to them. A sleeping sandbox stays asleep.',
      ),
    limits: z.strictObject(limitFields).exactOptional().describe('Absent limits stay unchanged.'),
  })
  .refine((change) => Object.keys(change).length > 0, { error: 'must name at least one field to change' })
  .meta({
    id: 'UpdateSandbox',
    examples: [{ idleTimeoutMs: 60_000, expires: { idleMs: 604_800_000, action: 'delete' } }],
  })

export const sandboxDamageSchema = z
  .strictObject({
    snapshotId: snapshotIdField,
    reason: z.string(),
    foundAt: timestampField,
    rollbackTo: snapshotIdField
      .optional()
      .describe('The newest older snapshot that is not damaged as far as known.'),
  })
  .describe('The snapshot that the sandbox would wake from is damaged, so it cannot wake.')

export const sandboxSchema = z
  .strictObject({
    id: sandboxIdField,
    name: nameField.optional(),
    state: stateField,
    tier: tierField.optional(),
    template: z.string(),
    isolation: isolationField,
    metadata: z.record(z.string(), z.string()).readonly(),
    idleTimeoutMs: z.int(),
    storeAfterMs: z.int(),
    maxBackgroundMs: z
      .int()
      .describe('How long background processes keep the sandbox awake after its last use.'),
    wakeOnTimer: z.boolean().describe('Whether the sandbox wakes for timers of its processes.'),
    wakesAt: timestampField.optional().describe('When a timer wakes the sandbox, while it sleeps.'),
    atMemoryLimit: atMemoryLimitField,
    checkpointEveryMs: z.int().describe('How often the sandbox is saved while it runs. 0: never.'),
    connections: z.strictObject({ keepAsleepMs: keepAsleepField, wakeOnData: wakeOnDataField }),
    expires: z
      .strictObject({
        afterMs: z.int().optional(),
        idleMs: z.int().optional(),
        at: z.string().optional(),
        action: z.enum(['delete', 'standby']),
      })
      .optional(),
    ephemeral: z.boolean(),
    limits: z.strictObject({
      memoryBytes: z.int(),
      cpus: z.number(),
      pids: z.int(),
      diskBytes: z.int(),
      files: z.int(),
    }),
    volumes: z
      .array(z.strictObject({ volume: z.string(), path: z.string(), readOnly: z.boolean() }))
      .readonly(),
    network: networkViewSchema,
    secrets: z.array(z.string()).readonly().describe('Names of the secrets of the sandbox.'),
    createdAt: timestampField,
    lastActiveAt: timestampField,
    stateSince: timestampField,
    headSnapshotId: snapshotIdField.optional().describe('The snapshot that the sandbox wakes from.'),
    forkedFrom: sandboxIdField.optional(),
    lostSince: timestampField
      .optional()
      .describe('The host or the processes of the sandbox died: changes after this time are lost.'),
    damage: sandboxDamageSchema.optional(),
    replicated: z
      .boolean()
      .optional()
      .describe(
        'In a cluster: the snapshot that it wakes from is in the depot, so that another host can wake it when its own is lost.',
      ),
  })
  .meta({
    id: 'Sandbox',
    examples: [
      {
        id: 'sb-k3v9x2m4p7q8r5t6',
        name: 'analysis',
        state: 'standby',
        tier: 'frozen',
        template: 'python',
        isolation: 'process',
        metadata: { user: '42' },
        idleTimeoutMs: 15_000,
        storeAfterMs: 300_000,
        maxBackgroundMs: 86_400_000,
        wakeOnTimer: false,
        atMemoryLimit: 'kill',
        checkpointEveryMs: 0,
        connections: DEFAULT_CONNECTIONS,
        ephemeral: false,
        limits: {
          memoryBytes: 1_073_741_824,
          cpus: 1,
          pids: 512,
          diskBytes: 10_737_418_240,
          files: 1_000_000,
        },
        volumes: [],
        network: { mode: 'public', allow: [] },
        secrets: [],
        createdAt: '2026-01-01T12:00:00.000Z',
        lastActiveAt: '2026-01-01T12:00:04.000Z',
        stateSince: '2026-01-01T12:00:19.000Z',
        headSnapshotId: 'sn-k3v9x2m4p7q8r5t6',
      },
    ],
  })

export const sandboxPageSchema = pageOf(sandboxSchema).meta({ id: 'SandboxPage' })

export const listSandboxesQuery = z.strictObject({
  ...pageQuery,
  state: stateField.exactOptional(),
  template: nameField.exactOptional(),
  name: nameField.exactOptional(),
  metadata: metadataField
    .exactOptional()
    .describe('`metadata[key]=value` or `metadata.key=value`. All of them must match.'),
})

export type CreateSandboxBody = z.input<typeof createSandboxSchema>
export type UpdateSandboxBody = z.input<typeof updateSandboxSchema>
export type SandboxAnswer = z.output<typeof sandboxSchema>
export type SandboxPageAnswer = z.output<typeof sandboxPageSchema>
