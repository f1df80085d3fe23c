import type { Snapshot } from 'dormouse'
import { z } from 'zod'
import { describeSandbox, sandboxInput, sandboxOutput } from '../fields.ts'
import { findSnapshot } from '../find-snapshot.ts'
import { SNAPSHOTS_LISTED_MAX } from '../limits.ts'
import { defineTool } from '../tool.ts'

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
(give its id as \`sandbox\`), compare, and delete the children that you do not keep. Returns the ids of the children.`,
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
  input: z.strictObject({ sandbox: sandboxInput }),
  output: z.object({
    snapshots: z.array(snapshotOutput),
    hasMore: z.boolean().describe(`Whether there are more than ${SNAPSHOTS_LISTED_MAX}.`),
  }),
  annotations: { readOnlyHint: true },
  call: async ({ sandbox: named }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    const pages = conversation.client.snapshots.list({ sandboxId: sandbox.id, signal })
    const { items, nextCursor } = await pages.page({ limit: SNAPSHOTS_LISTED_MAX })
    return { structured: { snapshots: items.map(describeSnapshot), hasMore: nextCursor !== undefined } }
  },
})

export const rollbackSandbox = defineTool({
  name: 'rollback_sandbox',
  title: 'Return to a saved state',
  description: `Put a sandbox back to one of its snapshots, with its variables, processes and files. Later changes are lost. \
Its id stays the same. Returns its state.`,
  input: z.strictObject({
    snapshot: z.string().describe('Id or name of the snapshot.'),
    sandbox: sandboxInput,
  }),
  output: sandboxOutput,
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
  call: async ({ snapshot, sandbox: named }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    await sandbox.rollback(await findSnapshot(sandbox, snapshot, signal), { signal })
    return { structured: describeSandbox(sandbox.info) }
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
