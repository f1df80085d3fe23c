import { ISOLATIONS } from '@dormouse/contracts'
import { type CreateTemplate, type Dormouse, DormouseError, type Template } from 'dormouse'
import { z } from 'zod'
import { networkOf } from '../fields.ts'
import { TEMPLATES_LISTED_MAX, TIMEOUT_MAX_MS, WAIT_DEFAULT_MS } from '../limits.ts'
import { defineTool, type ToolAnswer } from '../tool.ts'

export const listTemplates = defineTool({
  name: 'list_templates',
  title: 'List templates',
  description: `List the templates that create_sandbox can make a sandbox from, with descriptions and states. A template \
decides which programs and packages are installed.`,
  input: z.strictObject({
    cursor: z.string().min(1).optional().describe('`nextCursor` of the previous result.'),
  }),
  output: z.object({
    templates: z.array(
      z.object({
        name: z.string(),
        description: z.string().optional(),
        image: z.string().optional().describe('The container image that it was built on.'),
        state: z.string().describe('`ready`, `building` or `failed`.'),
        progress: z.string().optional().describe('What its build does now.'),
        error: z.string().optional().describe('Why its build failed.'),
      }),
    ),
    nextCursor: z.string().optional().describe('There are more: call again with this `cursor`.'),
  }),
  annotations: { readOnlyHint: true },
  call: async ({ cursor }, { conversation, signal }) => {
    const pages = conversation.client.templates.list({ signal })
    const { items, nextCursor } = await pages.page({ limit: TEMPLATES_LISTED_MAX, cursor })
    const templates = items.map(({ name, description, image, state, progress, error }) => ({
      name,
      description,
      image,
      state,
      progress,
      error,
    }))
    return { structured: { templates, nextCursor } }
  },
})

const builtTemplate = z.object({
  name: z.string(),
  state: z.string().describe('`ready`, `building` or `failed`.'),
  progress: z.string().optional().describe('What its build does now.'),
  error: z.string().optional().describe('Why its build failed.'),
  failedStep: z.string().optional().describe('The step of the Dockerfile that failed.'),
  log: z.string().optional().describe('The end of the log of a build that is not ready.'),
})

const names = z.array(z.string()).optional()

const templateInput = z.strictObject({
  name: z.string().min(1).describe('Alone: waits for the build of this template, or describes it.'),
  description: z.string().optional().describe('Shown by list_templates.'),
  image: z.string().min(1).optional().describe('A container image: `node:24`, `ghcr.io/team/web:2`.'),
  dockerfile: z
    .string()
    .min(1)
    .optional()
    .describe(
      'The text of a Dockerfile. `FROM template:NAME` builds on a template. There are no files to COPY.',
    ),
  from: z.string().min(1).optional().describe('The template to build on. Default: `python`.'),
  snapshot: z
    .string()
    .min(1)
    .optional()
    .describe('Take this snapshot as it is, with memory and processes: its id, or `SANDBOX/NAME`.'),
  packages: names.describe('Debian packages to install.'),
  pip: names.describe('Python packages to install.'),
  commands: names.describe('Bash commands that run as root after that.'),
  preload: names.describe('Python modules that every new sandbox has imported.'),
  start: z.string().min(1).optional().describe('A program that runs in every new sandbox, such as a server.'),
  ready: z
    .strictObject({
      port: z.int().min(1).max(65_535).optional(),
      log: z.string().min(1).optional(),
      command: z.string().min(1).optional(),
    })
    .optional()
    .describe(
      'When it is ready: it listens at `port`, prints the text `log`, or `command` succeeds. Give one.',
    ),
  network: z
    .union([z.enum(['public', 'none']), z.array(z.string())])
    .optional()
    .describe('What the build may reach, as in create_sandbox. Default: only package registries.'),
  isolation: z
    .enum(ISOLATIONS)
    .optional()
    .describe('What its sandboxes have by default, as for create_sandbox. The build itself has `process`.'),
  waitMs: z
    .int()
    .min(0)
    .max(TIMEOUT_MAX_MS)
    .optional()
    .describe(
      `How many milliseconds to wait for the end of the build. It continues after that. Default: ${WAIT_DEFAULT_MS}.`,
    ),
})

export const createTemplate = defineTool({
  name: 'create_template',
  title: 'Create a template',
  description: `Make a template that create_sandbox can make any number of sandboxes from. Builds it from a container image, \
a Dockerfile, or packages and commands on top of another template, in a sandbox of its own; or takes it from a snapshot at \
once. With \`start\`, every new sandbox has that program running and warm. A build that takes longer than \`waitMs\` \
continues: call again with \`name\` alone to wait for its end. A build that failed can be corrected and given again.`,
  input: templateInput,
  output: builtTemplate,
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  call: async ({ name, waitMs = WAIT_DEFAULT_MS, ...given }, { conversation, signal, onOutput }) => {
    const { templates } = conversation.client
    const asked = Object.values(given).every((value) => value === undefined)
    const { state } = await (asked
      ? templates.get(name, { signal })
      : templates.create(toTemplate({ name, ...given }), { signal }))
    if (state === 'building' && waitMs > 0) await waitForBuild(templates, name, { waitMs, signal, onOutput })
    return describeBuilt(await templates.get(name, { signal }))
  },
})

type Given = Omit<z.output<typeof templateInput>, 'waitMs'>

/** Without what was not given. */
function toTemplate({ snapshot, network, ...given }: Given): CreateTemplate {
  const fields = { ...given, snapshotId: snapshot, network: network && networkOf(network) }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never
}

/** Returns when the build has ended or `waitMs` have passed, whichever comes first. A call that ends does not end it. */
async function waitForBuild(
  templates: Dormouse['templates'],
  name: string,
  { waitMs, signal, onOutput }: { waitMs: number; signal: AbortSignal; onOutput: (output: string) => void },
): Promise<void> {
  const over = AbortSignal.timeout(waitMs)
  const both = AbortSignal.any([signal, over])
  try {
    for await (const { text } of templates.log(name, { signal: both })) onOutput(`${text}\n`)
    await templates.wait(name, { signal: both })
  } catch (error) {
    signal.throwIfAborted()
    const hasFailed = error instanceof DormouseError && error.code === 'setup_failed'
    if (!over.aborted && !hasFailed) throw error
  }
}

function describeBuilt({
  name,
  state,
  progress,
  error,
  failedStep,
  logTail,
}: Template): ToolAnswer<z.input<typeof builtTemplate>> {
  const log = state === 'ready' ? undefined : logTail
  return { structured: { name, state, progress, error, failedStep, log }, isError: state === 'failed' }
}

export const deleteTemplate = defineTool({
  name: 'delete_template',
  title: 'Delete a template',
  description: `Delete a template that create_template made. Refused while a sandbox needs its files. Ends a build of it that \
still runs.`,
  input: z.strictObject({ name: z.string().min(1).describe('See list_templates.') }),
  output: z.object({ name: z.string(), deleted: z.literal(true) }),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  call: async ({ name }, { conversation, signal }) => {
    await conversation.client.templates.delete(name, { signal })
    return { structured: { name, deleted: true as const } }
  },
})
