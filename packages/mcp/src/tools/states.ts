import { Sandbox, type Snapshot } from 'dormouse'
import { z } from 'zod'
import { describeSandbox, sandboxInput, sandboxOutput } from '../fields.ts'
import { CHECKPOINT_MAX_MINUTES, HOLD_MAX_MINUTES, SNAPSHOTS_LISTED_MAX } from '../limits.ts'
import { defineTool } from '../tool.ts'

const SNAPSHOT_ID = /^sn-[2-9a-km-np-z]{16}$/

const snapshotOutput = z.object({
  id: z.string(),
  name: z.string().optional(),
  sandboxId: z.string(),
  kind: z.string().describe('`full`: files and memory. `files`: files only.'),
  createdAt: z.string(),
})

export const forkSandbox = defineTool({
  name: 'fork_sandbox',
  title: 'Fork a sandbox',
  description: `Make children with all variables, processes and files of a sandbox, in milliseconds at any size. The \
sandbox itself does not change. Use it to try several approaches from one state: fork, run one approach in each child \
(give its id as \`sandbox\`), compare, promote the best with promote_sandbox, and delete the others. Returns the ids of the children.`,
  input: z.strictObject({
    count: z.int().min(1).max(100).optional().describe('Number of children. Default: 1.'),
    sandbox: sandboxInput,
  }),
  output: z.object({ parent: z.string(), children: z.array(sandboxOutput) }),
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  call: async ({ count, sandbox: named }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    const children = await sandbox.fork(count, { signal })
    return {
      structured: { parent: sandbox.id, children: children.map(({ info }) => describeSandbox(info)) },
    }
  },
})

export const standbySandbox = defineTool({
  name: 'standby_sandbox',
  title: 'Put a sandbox to sleep',
  description: `Put a sandbox to sleep with its memory. Rarely needed: a sandbox without work goes to sleep by itself, and \
the next call wakes it. Returns its state.`,
  input: z.strictObject({
    sandbox: sandboxInput,
    tier: z
      .enum(['frozen', 'stored'])
      .optional()
      .describe('`stored`: on disk only, uses no memory. `frozen`: in memory, wakes faster.'),
  }),
  output: sandboxOutput,
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true },
  call: async ({ sandbox: named, tier }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    await sandbox.idle(tier === undefined ? { signal } : { tier, signal })
    return { structured: describeSandbox(sandbox.info) }
  },
})

export const resumeSandbox = defineTool({
  name: 'resume_sandbox',
  title: 'Wake a sandbox',
  description: `Wake a sandbox. Not needed before other tools, which wake it by themselves. Use it to continue background \
processes of a sleeping sandbox. Returns its state.`,
  input: z.strictObject({ sandbox: sandboxInput }),
  output: sandboxOutput,
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true },
  call: async ({ sandbox: named }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    await sandbox.resume({ signal })
    return { structured: describeSandbox(sandbox.info) }
  },
})

export const holdSandbox = defineTool({
  name: 'hold_sandbox',
  title: 'Keep a sandbox awake',
  description: `Keep a sandbox awake for a time, although nothing seems to run in it. Use it for background work that mostly \
waits, such as a process that polls or sleeps between steps. Code of run_python needs no hold. Returns when the hold ends.`,
  input: z.strictObject({
    minutes: z.int().min(1).max(HOLD_MAX_MINUTES).describe('For how long, from now.'),
    reason: z.string().min(1).max(200).optional().describe('Shown to people who ask why it is awake.'),
    sandbox: sandboxInput,
  }),
  output: z.object({ sandbox: z.string(), until: z.string() }),
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true },
  call: async ({ minutes, reason = 'an MCP client', sandbox: named }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    await sandbox.resume({ signal })
    const { until } = await sandbox.hold(reason, minutes * 60_000, { signal })
    return { structured: { sandbox: sandbox.name ?? sandbox.id, until } }
  },
})

export const checkpointSandbox = defineTool({
  name: 'checkpoint_sandbox',
  title: 'Save a sandbox every so often',
  description: `Save a sandbox every so often while it runs, so that a crash of the host costs at most that much. Use it for \
computations of hours and for servers that never idle. Each checkpoint stops the sandbox for a moment. After a crash it \
wakes by itself at the last one. \`minutes\` 0 ends it. Returns when the last checkpoint was.`,
  input: z.strictObject({
    minutes: z.number().min(0).max(CHECKPOINT_MAX_MINUTES).describe('How often. 0: never.'),
    sandbox: sandboxInput,
  }),
  output: z.object({
    sandbox: z.string(),
    everyMinutes: z.number(),
    lastAt: z.string().optional().describe('When the last checkpoint was taken.'),
    pauseMs: z.number().optional().describe('How long the last checkpoint stopped the sandbox.'),
    refused: z.string().optional().describe('Why the last attempt failed.'),
  }),
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true },
  call: async ({ minutes, sandbox: named }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    const info = await sandbox.update({ checkpointEveryMs: Math.round(minutes * 60_000), signal })
    const { lastAt, pauseMs, refused } = (await sandbox.why({ signal })).checkpoint ?? {}
    const everyMinutes = info.checkpointEveryMs / 60_000
    return { structured: { sandbox: info.name ?? info.id, everyMinutes, lastAt, pauseMs, refused } }
  },
})

export const snapshotSandbox = defineTool({
  name: 'snapshot_sandbox',
  title: 'Save the state of a sandbox',
  description: `Save the state of a sandbox (variables, processes, files). The sandbox continues. Use it before something \
risky or hard to undo; rollback_sandbox returns to this state. Returns the id of the snapshot.`,
  input: z.strictObject({
    name: z.string().optional().describe('A name for rollback_sandbox. Letters, digits, ".", "_" and "-".'),
    sandbox: sandboxInput,
  }),
  output: snapshotOutput,
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  call: async ({ name, sandbox: named }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    const snapshot = await sandbox.snapshot(name === undefined ? { signal } : { name, signal })
    return { structured: describeSnapshot(snapshot) }
  },
})

export const listSnapshots = defineTool({
  name: 'list_snapshots',
  title: 'List snapshots',
  description: `List the snapshots of a sandbox with names and times. Does not wake it.`,
  input: z.strictObject({
    sandbox: sandboxInput,
    cursor: z.string().min(1).optional().describe('`nextCursor` of the previous result.'),
  }),
  output: z.object({
    snapshots: z.array(snapshotOutput),
    nextCursor: z.string().optional().describe('There are more: call again with this `cursor`.'),
  }),
  annotations: { readOnlyHint: true },
  call: async ({ sandbox: named, cursor }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    const pages = conversation.client.snapshots.list({ sandboxId: sandbox.id, signal })
    const { items, nextCursor } = await pages.page({ limit: SNAPSHOTS_LISTED_MAX, cursor })
    return { structured: { snapshots: items.map(describeSnapshot), nextCursor } }
  },
})

export const deleteSnapshot = defineTool({
  name: 'delete_snapshot',
  title: 'Delete a snapshot',
  description: `Delete a snapshot that is no longer needed, to free disk space. This cannot be undone. The sandbox does not \
change. Returns the id of the snapshot.`,
  input: z.strictObject({
    snapshot: z.string().min(1).describe('Id or name of the snapshot.'),
    sandbox: sandboxInput,
  }),
  output: z.object({ id: z.string(), deleted: z.literal(true) }),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
  call: async ({ snapshot, sandbox: named }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    const isWhole = SNAPSHOT_ID.test(snapshot) || snapshot.includes('/')
    const { id } = await conversation.client.snapshots.get(isWhole ? snapshot : `${sandbox.id}/${snapshot}`, {
      signal,
    })
    await conversation.client.snapshots.delete(id, { signal })
    return { structured: { id, deleted: true as const } }
  },
})

export const rollbackSandbox = defineTool({
  name: 'rollback_sandbox',
  title: 'Return to a saved state',
  description: `Put a sandbox back to a snapshot of its own or of one of its forks, with its variables, processes and files. \
Later changes are lost. Its id stays the same. Returns its state.`,
  input: z.strictObject({
    snapshot: z
      .string()
      .min(1)
      .describe('Id or name of the snapshot; for one of another sandbox `SANDBOX/NAME`.'),
    sandbox: sandboxInput,
  }),
  output: sandboxOutput,
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
  call: async ({ snapshot, sandbox: named }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    await sandbox.rollback(snapshot, { signal })
    return { structured: describeSandbox(sandbox.info) }
  },
})

export const promoteSandbox = defineTool({
  name: 'promote_sandbox',
  title: 'Continue as a fork',
  description: `Let the sandbox that a fork was made from continue as that fork, with its variables, processes and files. What \
the parent did since the fork is lost. The parent keeps its id and name; the fork is deleted unless you keep it. Use it \
for the best of several forks. Returns the state of the parent.`,
  input: z.strictObject({
    sandbox: z.string().describe('Id or name of the fork.'),
    keep: z.boolean().optional().describe('Keep the fork as a sandbox of its own. Default: false.'),
  }),
  output: sandboxOutput,
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  call: async ({ sandbox: named, keep = false }, { conversation, signal }) => {
    const child = await Sandbox.connect(named, { client: conversation.client, signal })
    return { structured: describeSandbox((await child.promote({ keep, signal })).info) }
  },
})

function describeSnapshot({
  id,
  name,
  sandboxId,
  kind,
  createdAt,
}: Snapshot): z.input<typeof snapshotOutput> {
  return { id, name, sandboxId, kind, createdAt }
}
