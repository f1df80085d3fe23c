import { burrowLimitsSchema, ISOLATIONS, MIN_MEMORY_BYTES } from '@dormouse/contracts'
import { Sandbox } from 'dormouse'
import { z } from 'zod'
import { describeSandbox, networkOf, sandboxOutput } from '../fields.ts'
import { KEEP_CONNECTIONS_MAX_MINUTES, MEMORY_MAX_MB, SANDBOXES_LISTED_MAX } from '../limits.ts'
import { defineTool } from '../tool.ts'

const MIB = 1024 ** 2

export const createSandbox = defineTool({
  name: 'create_sandbox',
  title: 'Create a sandbox',
  description: `Create another sandbox. Usually not needed: this conversation has its own. Use it to keep work apart, or to \
get a name that other conversations can use. It has Python with numpy, pandas, matplotlib and scikit-learn, gcc and git, and stays until it is \
deleted. If the name exists, returns that sandbox unchanged. Returns its id and name: give either as \`sandbox\` to the \
other tools.`,
  input: z.strictObject({
    name: z
      .string()
      .optional()
      .describe('Letters, digits, ".", "_" and "-". If it exists, returns that sandbox.'),
    snapshot: z
      .string()
      .optional()
      .describe('Start from this snapshot instead of a template: its id, or `SANDBOX/NAME`.'),
    template: z.string().min(1).optional().describe('See list_templates. Default: `python`.'),
    isolation: z
      .enum(ISOLATIONS)
      .optional()
      .describe(
        '`microvm`: a virtual machine with a kernel of its own, where the server offers it. Default: the setting of the server.',
      ),
    memoryMb: z
      .int()
      .min(MIN_MEMORY_BYTES / MIB)
      .max(MEMORY_MAX_MB)
      .optional()
      .describe('Default: 1024.'),
    cpus: burrowLimitsSchema.shape.cpus.unwrap().optional().describe('Default: 1.'),
    env: z.record(z.string(), z.string()).optional().describe('Environment variables of all its processes.'),
    wakeOnTimer: z
      .boolean()
      .optional()
      .describe(
        'When true, it wakes by itself for timers, `sleep` and time-outs of its processes. Default: false, so they stand still while it sleeps.',
      ),
    keepConnectionsMinutes: z
      .number()
      .min(0)
      .max(KEEP_CONNECTIONS_MAX_MINUTES)
      .optional()
      .describe(
        'How long connections that it opened to servers outside stay open while it sleeps. 0: they end at every sleep. Default: 60.',
      ),
    wakeOnData: z
      .boolean()
      .optional()
      .describe('When true, it wakes when data arrives on such a connection. Default: false.'),
    network: z
      .union([z.enum(['public', 'none']), z.array(z.string())])
      .optional()
      .describe(
        'What it may reach: `public` (the internet), `none`, or a list such as ["pypi.org:443", "*.example.com"].',
      ),
  }),
  output: sandboxOutput,
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  call: async (
    { name, template, snapshot, isolation, memoryMb, cpus, env, wakeOnTimer, network, ...connections },
    { conversation, signal },
  ) => {
    const limits = {
      ...(memoryMb !== undefined && { memoryBytes: memoryMb * MIB }),
      ...(cpus !== undefined && { cpus }),
    }
    const options = {
      metadata: { via: 'mcp' },
      limits,
      ...(template !== undefined && { template }),
      ...(snapshot !== undefined && { snapshot }),
      ...(isolation !== undefined && { isolation }),
      ...(env !== undefined && { env }),
      ...(wakeOnTimer !== undefined && { wakeOnTimer }),
      ...(network !== undefined && { network: networkOf(network) }),
      ...connectionsOf(connections),
    }
    const which = { client: conversation.client, signal }
    const sandbox = await (name === undefined
      ? Sandbox.create(options, which)
      : Sandbox.getOrCreate(name, options, which))
    return { structured: describeSandbox(sandbox.info) }
  },
})

interface Connections {
  readonly keepConnectionsMinutes?: number | undefined
  readonly wakeOnData?: boolean | undefined
}

function connectionsOf({ keepConnectionsMinutes: minutes, wakeOnData }: Connections) {
  if (minutes === undefined && wakeOnData === undefined) return {}
  return {
    connections: {
      ...(minutes !== undefined && { keepAsleepMs: Math.round(minutes * 60_000) }),
      ...(wakeOnData !== undefined && { wakeOnData }),
    },
  }
}

export const listSandboxes = defineTool({
  name: 'list_sandboxes',
  title: 'List sandboxes',
  description: `List all sandboxes, running or asleep, with names, states and times of last use. Use it to find the work of \
earlier conversations. Wakes none of them.`,
  input: z.strictObject({
    state: z.enum(['running', 'standby']).optional().describe('Only sandboxes in this state.'),
    cursor: z.string().min(1).optional().describe('`nextCursor` of the previous result.'),
  }),
  output: z.object({
    sandboxes: z.array(sandboxOutput),
    conversationSandbox: z.string().describe('The name of the sandbox of this conversation.'),
    nextCursor: z.string().optional().describe('There are more: call again with this `cursor`.'),
  }),
  annotations: { readOnlyHint: true },
  call: async ({ state, cursor }, { conversation, signal }) => {
    const pages = conversation.client.listSandboxes({ state, signal })
    const { items, nextCursor } = await pages.page({ limit: SANDBOXES_LISTED_MAX, cursor })
    return {
      structured: {
        sandboxes: items.map(describeSandbox),
        conversationSandbox: conversation.name,
        nextCursor,
      },
    }
  },
})

export const deleteSandbox = defineTool({
  name: 'delete_sandbox',
  title: 'Delete a sandbox',
  description: `Delete a sandbox with its memory, files and processes. This cannot be undone. Use it for forks that you do \
not keep. An unused sandbox sleeps and costs nothing.`,
  input: z.strictObject({ sandbox: z.string().min(1).describe('Id or name.') }),
  output: z.object({ id: z.string(), name: z.string().optional(), deleted: z.literal(true) }),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  call: async ({ sandbox: named }, { conversation, signal }) => {
    const sandbox = await Sandbox.connect(named, { client: conversation.client, signal })
    await sandbox.delete({ signal })
    return { structured: { id: sandbox.id, name: sandbox.name, deleted: true as const } }
  },
})
