import { z } from 'zod'
import { COMPLETED_CODE_MAX_BYTES } from '../limits.ts'
import { textField } from './fields.ts'
import { pathField, userField } from './files.ts'
import { languageField } from './runs.ts'
import { envField } from './sandboxes.ts'

export const contextNameField = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1-64 letters, digits, "_" or "-"')
  .describe('The context `default` always exists.')

export const createContextSchema = z
  .strictObject({
    name: contextNameField,
    user: userField.exactOptional(),
    cwd: pathField.exactOptional(),
    env: envField.exactOptional(),
    language: languageField
      .default('python')
      .describe(
        'What its runs are written in. A context for JavaScript also runs TypeScript, and the other way round.',
      ),
    python: pathField
      .exactOptional()
      .describe(
        'For Python: the interpreter, or the directory of a virtual environment. It needs no IPython.',
      ),
  })
  .meta({
    id: 'CreateContext',
    examples: [
      { name: 'analysis', cwd: '/root' },
      { name: 'web', language: 'javascript' },
      { name: 'project', python: '/root/project/.venv' },
    ],
  })

export const contextSchema = z
  .strictObject({
    name: z.string(),
    language: languageField,
    user: z.string(),
    pid: z.int().nullable(),
    state: z.enum(['starting', 'idle', 'busy', 'dead']),
    restarts: z.int().describe('How often its kernel was replaced. Each time its variables were lost.'),
  })
  .meta({
    id: 'Context',
    examples: [{ name: 'default', language: 'python', user: 'root', pid: 7, state: 'idle', restarts: 0 }],
  })

export const contextListSchema = z
  .strictObject({ items: z.array(contextSchema).readonly() })
  .meta({ id: 'ContextList' })

export const completeSchema = z
  .strictObject({
    code: textField({ maxBytes: COMPLETED_CODE_MAX_BYTES }).describe(
      'Code in the language of the context, up to the cursor.',
    ),
  })
  .meta({ id: 'CompleteCode', examples: [{ code: 'import math; math.fl' }] })

export const completionsSchema = z
  .strictObject({
    matches: z.array(z.string()).readonly().describe('Each replaces `replaces`. At most 200.'),
    replaces: z.string().describe('The end of `code`.'),
    more: z.boolean().describe('There are more matches.'),
  })
  .meta({
    id: 'Completions',
    examples: [{ matches: ['math.floor'], replaces: 'math.fl', more: false }],
  })

export type CompletionsAnswer = z.output<typeof completionsSchema>
export type CreateContextBody = z.input<typeof createContextSchema>
export type ContextAnswer = z.output<typeof contextSchema>
export type ContextListAnswer = z.output<typeof contextListSchema>
