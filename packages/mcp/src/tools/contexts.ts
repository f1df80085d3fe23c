import { type Context, DormouseError, type Sandbox } from 'dormouse'
import { z } from 'zod'
import { sandboxInput } from '../fields.ts'
import { defineTool, type ToolCall } from '../tool.ts'

const DEFAULT_CONTEXT = 'default'
type Language = Context['language']
const LANGUAGES: { readonly [Name in Language]: Name } = {
  ...{ python: 'python', bash: 'bash', javascript: 'javascript', typescript: 'typescript', r: 'r' },
}

const contextOutput = z.object({
  name: z.string(),
  language: z.string(),
  state: z.string().describe('`starting`, `idle`, `busy` or `dead`.'),
  restarts: z.int().describe('How often its variables were lost.'),
})

export const contexts = defineTool({
  name: 'contexts',
  title: 'Manage REPLs',
  description: `List, create, restart or delete the REPLs (contexts) of a sandbox. Each has its own variables, and they run \
at the same time. The context \`default\` always exists. Restart one that is stuck: it loses its variables, files stay. \
Returns the contexts.`,
  input: z.strictObject({
    action: z.enum(['list', 'create', 'restart', 'delete']).describe('What to do.'),
    name: z.string().min(1).optional().describe('The context. Required unless you list.'),
    cwd: z.string().min(1).optional().describe('Its working directory, for `create` and `restart`.'),
    language: z
      .enum(LANGUAGES)
      .optional()
      .describe('For `create`. Default: `python`. A `bash` keeps its variables and directory.'),
    python: z
      .string()
      .min(1)
      .optional()
      .describe('For `create`: the Python interpreter, or the directory of a virtual environment.'),
    sandbox: sandboxInput,
  }),
  output: z.object({ sandbox: z.string(), contexts: z.array(contextOutput) }),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  call: async ({ action, name, sandbox: named, ...options }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    if (action !== 'list') await change(sandbox, { action, name: required(name, action), ...options, signal })
    const all = await sandbox.contexts.list({ signal })
    return {
      structured: {
        sandbox: sandbox.name ?? sandbox.id,
        contexts: all.map(({ name, language, state, restarts }) => ({ name, language, state, restarts })),
      },
    }
  },
})

interface Change extends Pick<ToolCall, 'signal'> {
  readonly action: 'create' | 'restart' | 'delete'
  readonly name: string
  readonly cwd?: string | undefined
  readonly language?: Context['language'] | undefined
  readonly python?: string | undefined
}

async function change({ contexts }: Sandbox, { action, name, ...fields }: Change): Promise<void> {
  const { cwd, language, python, signal } = fields
  const options = {
    signal,
    ...(cwd !== undefined && { cwd }),
    ...(language !== undefined && { language }),
    ...(python !== undefined && { python }),
  }
  if (action === 'create') await contexts.create(name, options)
  else if (name === DEFAULT_CONTEXT || action === 'delete') await contexts.delete(name, { signal })
  else {
    const old = (await contexts.list({ signal })).find((context) => context.name === name)
    await contexts.delete(name, { signal })
    await contexts.create(name, {
      ...(old !== undefined && { user: old.user, language: old.language }),
      ...options,
    })
  }
}

function required(name: string | undefined, action: string): string {
  if (name !== undefined) return name
  throw new DormouseError('invalid_argument', `name: is required to ${action} a context`)
}
