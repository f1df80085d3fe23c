import { DormouseError, type Volume } from 'dormouse'
import { z } from 'zod'
import { sandboxInput } from '../fields.ts'
import { VOLUMES_LISTED_MAX } from '../limits.ts'
import { defineTool, type ToolCall } from '../tool.ts'

const MIB = 1024 ** 2

const volumeOutput = z.object({
  name: z.string(),
  bytes: z.int().optional().describe('Used, as last measured.'),
  sizeBytes: z.int().describe('The most it may hold.'),
  usedBy: z.array(z.string()).describe('Sandboxes that mount it.'),
  readOnly: z.boolean(),
  clonedFrom: z.string().optional(),
  oneMoment: z
    .boolean()
    .optional()
    .describe('After `clone`: whether nothing changed in the volume during the copy.'),
})

export const volumes = defineTool({
  name: 'volumes',
  title: 'Manage volumes',
  description: `List, create, clone, attach or detach volumes: directories that outlive sandboxes and that several can \
mount at once. Use one for data that must stay when a sandbox is deleted or rolled back, or to hand files from one \
sandbox to another. \`clone\` copies a volume, with \`readOnly\` as a snapshot. Attaching keeps the variables of the \
sandbox. Returns the volumes, and for \`attach\` and \`detach\` what the sandbox mounts.`,
  input: z.strictObject({
    action: z.enum(['list', 'create', 'clone', 'attach', 'detach']).describe('What to do.'),
    name: z.string().min(1).optional().describe('The volume. Required unless you list.'),
    from: z.string().min(1).optional().describe('For `clone`: the volume to copy.'),
    path: z.string().min(1).optional().describe('For `attach`: where the sandbox sees it, such as `/data`.'),
    readOnly: z.boolean().optional().describe('For `clone` and `attach`: nothing can write to it.'),
    sizeMb: z
      .int()
      .min(1)
      .optional()
      .describe('For `create` and `clone`: how much it may hold, in MiB. Default: of the server.'),
    cursor: z.string().min(1).optional().describe('For `list`: `nextCursor` of the previous result.'),
    sandbox: sandboxInput,
  }),
  output: z.object({
    volumes: z.array(volumeOutput),
    mounts: z
      .array(z.object({ volume: z.string(), path: z.string(), readOnly: z.boolean() }))
      .optional()
      .describe('What the sandbox mounts.'),
    nextCursor: z.string().optional().describe('There are more: call again with this `cursor`.'),
  }),
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  call: async (input, call) => {
    const { action, cursor } = input
    if (action === 'attach' || action === 'detach')
      return { structured: await mount({ ...input, action }, call) }
    const { client } = call.conversation
    const { signal } = call
    if (action === 'list') {
      const page = await client.volumes.list({ signal }).page({ limit: VOLUMES_LISTED_MAX, cursor })
      return { structured: { volumes: page.items.map(describe), nextCursor: page.nextCursor } }
    }
    const name = required(input.name, 'name', action)
    const size = input.sizeMb === undefined ? {} : { sizeBytes: input.sizeMb * MIB }
    const made =
      action === 'create'
        ? await client.volumes.create({ name, ...size }, { signal })
        : await client.volumes.clone(
            required(input.from, 'from', action),
            { name, readOnly: input.readOnly === true, ...size },
            { signal },
          )
    return { structured: { volumes: [describe(made)] } }
  },
})

interface Mount {
  readonly action: 'attach' | 'detach'
  readonly name?: string | undefined
  readonly path?: string | undefined
  readonly readOnly?: boolean | undefined
  readonly sandbox?: string | undefined
}

async function mount(input: Mount, { conversation, signal }: ToolCall) {
  const { action, readOnly = false } = input
  const volume = required(input.name, 'name', action)
  const { sandbox } = await conversation.sandbox(input.sandbox, signal)
  const { volumes: before } = sandbox.info
  const others = before.filter((one) => one.volume !== volume)
  if (action === 'detach' && others.length === before.length)
    throw new DormouseError('not_found', `The sandbox does not mount a volume named "${volume}".`)
  const mounts =
    action === 'detach'
      ? others
      : [...others, { volume, path: required(input.path, 'path', action), readOnly }]
  const info = await sandbox.update({ volumes: mounts, signal })
  const found = await conversation.client.volumes.get(volume, { signal })
  return { volumes: [describe(found)], mounts: [...info.volumes] }
}

function describe(volume: Volume): z.input<typeof volumeOutput> {
  const { name, bytes, sizeBytes, usedBy, readOnly, clonedFrom, oneMoment } = volume
  return { name, bytes, sizeBytes, usedBy: [...usedBy], readOnly, clonedFrom, oneMoment }
}

function required(value: string | undefined, field: string, action: string): string {
  if (value !== undefined) return value
  throw new DormouseError('invalid_argument', `${field}: is required to ${action} a volume`)
}
