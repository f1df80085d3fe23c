import { z } from 'zod'
import { sandboxInput } from '../fields.ts'
import { defineTool } from '../tool.ts'

const variableOutput = z.object({
  name: z.string(),
  type: z.string(),
  shape: z.array(z.int()).optional(),
  bytes: z.int().optional(),
  preview: z.string(),
})

export const listVariables = defineTool({
  name: 'list_variables',
  title: 'List variables',
  description: `List the variables of a sandbox with type, shape, size and a short preview: what earlier code loaded and \
computed. Runs no code. Does not wake a sleeping sandbox: then these are the variables as of its last sleep.`,
  input: z.strictObject({
    context: z.string().min(1).optional().describe('Only this context. Default: all.'),
    sandbox: sandboxInput,
  }),
  output: z.object({
    sandbox: z.string(),
    isLive: z.boolean().describe('False: the sandbox sleeps.'),
    contexts: z.array(
      z.object({
        name: z.string(),
        language: z.string(),
        state: z.string().describe('`busy` during a run, whose variables are not known.'),
        variables: z.array(variableOutput),
        more: z.boolean(),
      }),
    ),
  }),
  annotations: { readOnlyHint: true },
  call: async ({ context, sandbox: named }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    const { isLive, contexts } = await sandbox.variables.list({ signal })
    return {
      structured: {
        sandbox: sandbox.name ?? sandbox.id,
        isLive,
        contexts: contexts
          .filter(({ name }) => context === undefined || name === context)
          .map(({ variables, ...one }) => ({
            ...one,
            variables: variables.map(({ opens: _, shape, ...rest }) => ({
              ...rest,
              ...(shape !== undefined && { shape: [...shape] }),
            })),
          })),
      },
    }
  },
})
