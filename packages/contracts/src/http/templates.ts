import { z } from 'zod'
import { materialSchema } from '../materials.ts'
import {
  ISOLATION_TEXT,
  integerTextOr,
  isolationField,
  nameField,
  pageOf,
  pageQuery,
  snapshotIdField,
  snapshotRefField,
  textField,
  timestampField,
} from './fields.ts'
import { networkSchema } from './network.ts'
import { recipeFields } from './template-recipe.ts'

const LIST_MAX = 500
const COMMAND_MAX_BYTES = 16 * 1024
/** A Debian package name, with an optional version. */
const debianPackage = z
  .string()
  .regex(/^[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?$/, 'is not the name of a Debian package')
  .max(200)
/** A pip requirement. A leading dash would be an option, and a slash or colon a path or URL. */
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
    snapshotId: snapshotRefField
      .exactOptional()
      .describe(
        'Make the template from this snapshot at once: its id, or `SANDBOX/NAME`. Otherwise it is built from the fields below.',
      ),
    from: nameField
      .exactOptional()
      .describe('The template to build on: one of the host, or one of your own. Default: `python`.'),
    network: networkSchema
      .exactOptional()
      .describe('What the build may reach. Default: only the package registries.'),
    packages: z.array(debianPackage).max(LIST_MAX).exactOptional().describe('Debian packages to install.'),
    pip: z
      .array(pipRequirement)
      .max(LIST_MAX)
      .exactOptional()
      .describe('Python packages to install with pip.'),
    commands: z
      .array(textField({ maxBytes: COMMAND_MAX_BYTES, minLength: 1 }))
      .max(LIST_MAX)
      .exactOptional()
      .describe(
        'Commands that bash runs as root in the sandbox that builds the template, in order, after all packages are installed. The build ends at the first one that fails.',
      ),
    preload: z
      .array(moduleName)
      .max(LIST_MAX)
      .exactOptional()
      .describe('Python modules that are already imported in every new sandbox.'),
    isolation: isolationField
      .exactOptional()
      .describe(`Default for sandboxes of the template. ${ISOLATION_TEXT} The build itself has \`process\`.`),
    ...recipeFields,
  })
  .refine(
    ({ name: _name, description: _description, snapshotId, ...built }) =>
      snapshotId === undefined || Object.values(built).every((value) => value === undefined),
    { error: 'cannot be given together with what to build', path: ['snapshotId'] },
  )
  .refine(
    ({ from, image, dockerfile }) => [from, image, dockerfile].filter((one) => one !== undefined).length <= 1,
    { error: 'only one of `from`, `image` and `dockerfile` can be given', path: ['image'] },
  )
  .meta({
    id: 'CreateTemplate',
    examples: [
      { name: 'polars', pip: ['polars'], preload: ['polars'] },
      {
        name: 'web',
        image: 'node:24',
        steps: [{ run: 'npm install -g serve' }],
        start: 'serve /srv',
        ready: { port: 3000 },
      },
      { name: 'ready-to-go', snapshotId: 'sn-k3v9x2m4p7q8r5t6' },
    ],
  })

export const templateSchema = z
  .strictObject({
    name: nameField,
    description: z.string().optional(),
    state: z.enum(['building', 'ready', 'failed']),
    source: z
      .enum(['built_in', 'host', 'description', 'snapshot'])
      .describe(
        '`built_in`: comes with Dormouse. `host`: built on the host with `dormouse template build`, for every key. `description`, `snapshot`: made through this API.',
      ),
    from: nameField.optional().describe('The template that this one was built on.'),
    image: z.string().optional().describe('The container image at the bottom.'),
    isolation: isolationField.optional().describe(`Default for sandboxes of the template. ${ISOLATION_TEXT}`),
    failedStep: z
      .string()
      .optional()
      .describe('The step that failed. `debugTemplate` starts a sandbox in the state before it.'),
    progress: z.string().optional().describe('What the build does now.'),
    snapshotId: snapshotIdField.optional(),
    createdAt: timestampField,
    bytes: z.int().optional(),
    materials: z
      .strictObject({ count: z.int(), sha256: z.string() })
      .optional()
      .describe(
        'The number of packages that the template was built from, and the digest of the list that `GET /v1/templates/{name}/materials` returns.',
      ),
    logTail: z.string().optional().describe('The last output of the build.'),
    error: z.string().optional().describe('Why the build failed.'),
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
        materials: {
          count: 261,
          sha256: '2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae',
        },
      },
    ],
  })

export const templateMaterialsSchema = z
  .strictObject({ count: z.int(), sha256: z.string(), items: z.array(materialSchema).readonly() })
  .meta({ id: 'TemplateMaterials' })

export const templatePageSchema = pageOf(templateSchema).meta({ id: 'TemplatePage' })
export const listTemplatesQuery = z.strictObject(pageQuery)
export const templateParams = z.strictObject({ name: nameField })

export const debugTemplateSchema = z
  .strictObject({ name: nameField.exactOptional() })
  .meta({ id: 'DebugTemplate', examples: [{ name: 'look' }] })

export const uploadSchema = z
  .strictObject({ id: z.string(), bytes: z.int(), sha256: z.string(), expiresAt: timestampField })
  .meta({ id: 'Upload' })

export const templateLogQuery = z.strictObject({
  after: integerTextOr(-1, { min: -1, max: Number.MAX_SAFE_INTEGER }).describe(
    'Only lines with a higher `seq`.',
  ),
})

export const templateLogLineSchema = z
  .strictObject({ seq: z.int(), at: timestampField, text: z.string() })
  .meta({ id: 'TemplateLogLineAnswer' })

export type UploadAnswer = z.output<typeof uploadSchema>
export type TemplateLogLineAnswer = z.output<typeof templateLogLineSchema>
export type CreateTemplateBody = z.input<typeof createTemplateSchema>
export type TemplateAnswer = z.output<typeof templateSchema>
export type TemplateMaterialsAnswer = z.output<typeof templateMaterialsSchema>
export type TemplatePageAnswer = z.output<typeof templatePageSchema>
