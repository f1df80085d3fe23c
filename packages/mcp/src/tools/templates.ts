import { z } from 'zod'
import { TEMPLATES_LISTED_MAX } from '../limits.ts'
import { defineTool } from '../tool.ts'

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
