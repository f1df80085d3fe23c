import { z } from 'zod'
import { nameField, pageOf, pageQuery, snapshotIdField, textField, timestampField } from './fields.ts'

const LIST_MAX = 500
const COMMAND_MAX_BYTES = 16 * 1024
/** What Debian allows in a package name, with an optional version. */
const debianPackage = z
  .string()
  .regex(/^[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?$/, 'is not the name of a Debian package')
  .max(200)
/** A requirement: a leading dash would be an option of pip, a slash or a colon something other than a package. */
const pipRequirement = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._[\],<>=!~*+ -]*$/, 'is not a requirement like "polars==1.2"')
  .max(200)
const moduleName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$/, 'is not the name of a Python module')
  .max(200)

export const createTemplateSchema = z
  .strictObject({
    name: nameField,
    description: textField({ maxBytes: 1000 }).exactOptional(),
    snapshotId: snapshotIdField
      .exactOptional()
      .describe('Makes it from this snapshot, at once. Otherwise it is built from the fields below.'),
    packages: z.array(debianPackage).max(LIST_MAX).exactOptional().describe('Debian packages.'),
    pip: z.array(pipRequirement).max(LIST_MAX).exactOptional().describe('Python packages.'),
    commands: z
      .array(textField({ maxBytes: COMMAND_MAX_BYTES, minLength: 1 }))
      .max(LIST_MAX)
      .exactOptional()
      .describe('Run by bash, as root, inside the template, after everything is installed.'),
    preload: z
      .array(moduleName)
      .max(LIST_MAX)
      .exactOptional()
      .describe('Python modules that every sandbox starts with already imported.'),
  })
  .refine(
    ({ snapshotId, packages, pip, commands, preload }) =>
      snapshotId === undefined || (packages ?? pip ?? commands ?? preload) === undefined,
    { error: 'cannot be given together with what to build', path: ['snapshotId'] },
  )
  .meta({
    id: 'CreateTemplate',
    examples: [
      { name: 'polars', pip: ['polars'], preload: ['polars'] },
      { name: 'ready-to-go', snapshotId: 'sn-k3v9x2m4p7q8r5t6' },
    ],
  })

export const templateSchema = z
  .strictObject({
    name: nameField,
    description: z.string().optional(),
    state: z.enum(['building', 'ready', 'failed']),
    source: z.enum(['built_in', 'description', 'snapshot']),
    snapshotId: snapshotIdField.optional(),
    createdAt: timestampField,
    bytes: z.int().optional(),
    logTail: z.string().optional().describe('What the build said last.'),
    error: z.string().optional().describe('Why it `failed`.'),
  })
  .meta({
    id: 'Template',
    examples: [
      {
        name: 'python',
        description: 'Debian 13 with Python 3.13, numpy and pandas',
        state: 'ready',
        source: 'built_in',
        createdAt: '2026-01-01T12:00:00.000Z',
        bytes: 612_000_000,
      },
    ],
  })

export const templatePageSchema = pageOf(templateSchema).meta({ id: 'TemplatePage' })
export const listTemplatesQuery = z.strictObject(pageQuery)
export const templateParams = z.strictObject({ name: nameField })

export type CreateTemplateBody = z.input<typeof createTemplateSchema>
export type TemplateAnswer = z.output<typeof templateSchema>
export type TemplatePageAnswer = z.output<typeof templatePageSchema>
