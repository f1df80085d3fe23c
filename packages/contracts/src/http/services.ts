import { z } from 'zod'
import {
  booleanTextOr,
  ISOLATION_TEXT,
  integerText,
  integerTextOr,
  isolationField,
  nameField,
  pageOf,
  pageQuery,
  sandboxIdField,
  textField,
  timestampField,
} from './fields.ts'
import { networkSchema } from './network.ts'
import { checkpointEveryField, createSandboxSchema } from './sandboxes.ts'
import { recipeFields, templateReadySchema } from './template-recipe.ts'

const PORT_MAX = 65_535
const PATH_MAX_BYTES = 2048
const HOUR_MS = 3600 * 1000
const REPLICAS_MAX = 100
const CONCURRENCY_MAX = 100_000
const SEARCH_MAX_BYTES = 1000
const SERVICE_LOG_LINES_MAX = 10_000

const ID = /^sv-[2-9a-km-np-z]{16}$/
const serviceIdField = z.string().regex(ID, 'is not the id of a service')
/** Routes accept the id of a service or the name that its owner gave it. */
export const serviceRefField = z
  .union([serviceIdField, nameField], { error: 'is neither the id nor the name of a service' })
  .describe('Id or name of the service.')

const replicasSchema = z
  .strictObject({
    min: z
      .int()
      .min(0)
      .max(REPLICAS_MAX)
      .exactOptional()
      .describe('How many replicas stay awake when there are no requests. Default: 0, all of them sleep.'),
    max: z.int().min(1).max(REPLICAS_MAX).exactOptional().describe('Default: 1, or `min` if that is more.'),
    concurrency: z
      .int()
      .min(1)
      .max(CONCURRENCY_MAX)
      .exactOptional()
      .describe('Another replica starts when every one has this many requests under way. Default: 20.'),
    idleMs: z
      .int()
      .min(1000)
      .max(24 * HOUR_MS)
      .exactOptional()
      .describe(
        'A replica beyond the first that had no request for this time is deleted. Default: one minute.',
      ),
  })
  .refine(({ min = 0, max }) => max === undefined || max >= Math.max(1, min), {
    error: 'must not be less than `min`',
    path: ['max'],
  })
  .meta({ id: 'ServiceReplicas', examples: [{ min: 0, max: 5, concurrency: 20 }] })

const healthSchema = z
  .strictObject({
    path: textField({ maxBytes: PATH_MAX_BYTES })
      .regex(/^\/[\x21-\x7e]*$/, 'must begin with "/" and be percent-encoded')
      .exactOptional()
      .describe(
        'A GET of this path must return a status below 400. Without it, the port must accept connections.',
      ),
    intervalMs: z.int().min(1000).max(HOUR_MS).exactOptional().describe('Default: 10 seconds.'),
    timeoutMs: z.int().min(100).max(60_000).exactOptional().describe('Default: 5 seconds.'),
    failures: z
      .int()
      .min(1)
      .max(100)
      .exactOptional()
      .describe('The program is restarted after this many failures in a row. Default: 3.'),
  })
  .meta({ id: 'ServiceHealth', examples: [{ path: '/healthz', intervalMs: 10_000 }] })

const healthField = healthSchema
  .nullable()
  .describe('`null`: the program is not checked. Absent fields stay unchanged.')

const restartField = z
  .enum(['always', 'never'])
  .describe(
    'Whether the program starts again when it ends. It waits between two starts, one second at first and at most a minute. At first `always`.',
  )

const { env, secrets, volumes, limits, isolation } = createSandboxSchema.shape
const { image, registryAuth, dockerfile, context, buildArgs, target, steps, start } = recipeFields

export const deployServiceSchema = z
  .strictObject({
    port: z.int().min(1).max(PORT_MAX).describe('The port that the program listens on.'),
    template: nameField
      .exactOptional()
      .describe('The template to start in. Its running programs are part of every replica.'),
    ...{ image, registryAuth, dockerfile, context, buildArgs, target, steps },
    start: start.describe(
      'The command that serves, for `/bin/sh -c`. Default: the command of the image, or what the files in `context` suggest.',
    ),
    ready: templateReadySchema
      .exactOptional()
      .describe('When the program is ready. Default: it listens on `port`, within one minute.'),
    cwd: textField({ maxBytes: 4096, minLength: 1 }).exactOptional(),
    user: textField({ maxBytes: 100, minLength: 1 }).exactOptional(),
    ...{ env, secrets, volumes, limits, isolation },
    network: networkSchema.exactOptional(),
    public: z
      .boolean()
      .exactOptional()
      .describe('Whether requests need no key. Default: as before, at first `false`.'),
    replicas: replicasSchema.exactOptional().describe('Default: as before.'),
    health: healthField.exactOptional(),
    restart: restartField.exactOptional(),
    checkpointEveryMs: checkpointEveryField.exactOptional(),
    keepVersions: z
      .int()
      .min(1)
      .max(100)
      .exactOptional()
      .describe('How many older versions stay for a rollback. Default: as before, at first 10.'),
  })
  .refine(
    ({ template: inTemplate, image: onImage, dockerfile: byDockerfile }) =>
      [inTemplate, onImage, byDockerfile].filter((one) => one !== undefined).length <= 1,
    { error: 'only one of `template`, `image` and `dockerfile` can be given', path: ['template'] },
  )
  .meta({
    id: 'DeployService',
    examples: [
      { port: 3000, image: 'node:24', context: 'up-k3v9x2m4p7q8r5t6', start: 'node server.js' },
      { port: 8000, template: 'python', start: 'python3 -m http.server 8000', public: true },
    ],
  })

export const updateServiceSchema = z
  .strictObject({
    public: z.boolean().exactOptional(),
    replicas: replicasSchema.exactOptional().describe('Absent fields stay unchanged.'),
    health: healthField.exactOptional(),
    restart: restartField.exactOptional(),
    checkpointEveryMs: checkpointEveryField.exactOptional(),
    keepVersions: z.int().min(1).max(100).exactOptional(),
  })
  .refine((change) => Object.keys(change).length > 0, { error: 'must name at least one field to change' })
  .meta({ id: 'UpdateService', examples: [{ replicas: { max: 5 } }] })

export const rollbackServiceSchema = z
  .strictObject({
    version: z.int().min(1).exactOptional().describe('Default: the version before the current one.'),
  })
  .prefault({})
  .meta({ id: 'RollbackService', examples: [{ version: 2 }] })

const serviceVersionSchema = z
  .strictObject({
    version: z.int(),
    state: z
      .enum(['building', 'starting', 'ready', 'failed'])
      .describe('`building`: its template is built. `starting`: its program starts. `ready`: it can serve.'),
    isCurrent: z.boolean().describe('Whether requests go to it.'),
    createdAt: timestampField,
    isolation: isolationField.optional().describe(`${ISOLATION_TEXT} Absent if the request named none.`),
    template: z.string().optional().describe('`GET /v1/templates/{name}/log` has the log of its build.'),
    error: z.string().optional().describe('Why it failed. The version before it keeps serving.'),
  })
  .meta({ id: 'ServiceVersion' })

const replicaSchema = z
  .strictObject({
    sandboxId: sandboxIdField,
    version: z.int(),
    state: z
      .enum(['starting', 'ready', 'restarting', 'failed', 'draining'])
      .describe('`draining`: it gets no new requests and is deleted when its last one has ended.'),
    isAwake: z.boolean(),
    requests: z.int().describe('Requests under way.'),
    restarts: z.int(),
  })
  .meta({ id: 'ServiceReplica' })

export const serviceSchema = z
  .strictObject({
    id: serviceIdField,
    name: nameField,
    createdAt: timestampField,
    version: z.int().optional().describe('The version that serves. Absent before the first is ready.'),
    port: z.int(),
    public: z.boolean(),
    url: z.string().describe('Where it serves, by host name where the server has one for it.'),
    pathUrl: z.string().describe('Where it serves, by path, at the address of the server.'),
    replicas: z.strictObject({
      ...{ min: z.int(), max: z.int(), concurrency: z.int(), idleMs: z.int() },
      items: z.array(replicaSchema).readonly(),
    }),
    health: healthSchema.optional(),
    restart: restartField,
    checkpointEveryMs: z.int().describe('How often its replicas are saved while they run. 0: never.'),
    keepVersions: z.int(),
    versions: z.array(serviceVersionSchema).readonly().describe('Newest first.'),
  })
  .meta({ id: 'Service' })

export const servicePageSchema = pageOf(serviceSchema).meta({ id: 'ServicePage' })
export const listServicesQuery = z.strictObject(pageQuery)
export const serviceParams = z.strictObject({ service: serviceRefField })

export const serviceLogsQuery = z.strictObject({
  after: integerText({ min: -1, max: Number.MAX_SAFE_INTEGER })
    .exactOptional()
    .describe('Only lines with a higher `seq`.'),
  since: timestampField.exactOptional().describe('Only lines of this time or later.'),
  search: textField({ maxBytes: SEARCH_MAX_BYTES, minLength: 1 })
    .exactOptional()
    .describe('Only lines that contain this text.'),
  tail: integerTextOr(1000, { min: 0, max: SERVICE_LOG_LINES_MAX }).describe(
    'At most this many of the newest lines.',
  ),
  follow: booleanTextOr(false).describe('Continue with new lines as they come.'),
})

export const serviceLogLineSchema = z
  .strictObject({
    seq: z.int(),
    at: timestampField,
    sandboxId: sandboxIdField.describe('The replica.'),
    version: z.int(),
    stream: z
      .enum(['stdout', 'stderr', 'system'])
      .describe('`system`: what the server did with the replica.'),
    text: z.string(),
  })
  .meta({ id: 'ServiceLogLine' })

export type DeployServiceBody = z.input<typeof deployServiceSchema>
export type DeployServiceRequest = z.output<typeof deployServiceSchema>
export type UpdateServiceBody = z.input<typeof updateServiceSchema>
export type RollbackServiceBody = z.input<typeof rollbackServiceSchema>
export type ServiceAnswer = z.output<typeof serviceSchema>
export type ServicePageAnswer = z.output<typeof servicePageSchema>
export type ServiceVersionAnswer = z.output<typeof serviceVersionSchema>
export type ServiceLogLineAnswer = z.output<typeof serviceLogLineSchema>
