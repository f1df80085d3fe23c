import { ERRORS, type ErrorCode } from '@dormouse/contracts'
import swagger from '@fastify/swagger'
import type { RouteOptions } from 'fastify'
import { createJsonSchemaTransform, createJsonSchemaTransformObject } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { describeOperations, tidySchemas } from './openapi-details.ts'
import type { App } from './route.ts'

const TAGS = {
  sandboxes:
    'A sandbox has an identity, a policy and a state: running or asleep. It keeps its memory and files while it sleeps.',
  runs: 'Code that runs in a context of a sandbox, with a journal of numbered events.',
  jobs: 'Code or a command over many inputs. Jobs survive restarts of the server.',
  schedules: 'Runs, jobs and requests at the times of a cron expression.',
  webhooks: 'Events as signed requests to receivers outside.',
  lifecycle: 'Standby, wake, fork, and the reasons for a state.',
  snapshots: 'Saved states of sandboxes.',
  files: 'Files in a sandbox, of any size.',
  contexts: 'Contexts: runs in one context share variables.',
  processes: 'Processes, in the background or with a terminal.',
  ports:
    'TCP ports in a sandbox. HTTP and WebSocket requests of any method to `/v1/sandboxes/{id}/ports/{port}/…` and `<port>-<id>.<domain>` go to the program on that port, and wake the sandbox. They need a key or a link, unless the port is public. `link`, `wait` and `tcp` directly below the port are routes of this server; under a host name every path belongs to the sandbox. The server itself answers with `port_closed` (502), `unauthorized` and the errors of every route below a sandbox.',
  templates: 'What sandboxes are created from.',
  volumes: 'Directories that outlive sandboxes.',
  services: 'Programs that answer requests at a stable address and sleep in between.',
  secrets: 'Values that sandboxes use in requests and never hold.',
  usage: 'Usage, and its cost with and without standby.',
  keys: 'API keys.',
  ssh: 'SSH keys, and the address for SSH clients.',
  sessions: 'Signing in to the page.',
  fleet: 'All sandboxes at once: events, numbers, and what each did in the last day.',
  host: 'The server itself.',
  nodes: 'The hosts of a cluster. A server outside a cluster is its only node.',
}

const zodToJsonConfig = { override: keepExamplesAndDefaults }
const jsonSchemaTransform = createJsonSchemaTransform({ zodToJsonConfig })
const jsonSchemaTransformObject = createJsonSchemaTransformObject({ zodToJsonConfig })

/** The OpenAPI document, generated from the declarations of the routes. */
export async function describeRoutes(app: App, version: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Dormouse',
        version,
        summary: 'The perpetual sandbox for AI agents on any Linux box',
        description:
          'Unknown fields and query parameters are refused. All errors have the same shape and a code from one list.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/' }],
      tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
      components: {
        headers: {
          RequestId: {
            schema: { type: 'string' },
            description: 'Identifies this request in the server log.',
          },
          RetryAfter: { schema: { type: 'integer' }, description: 'Seconds to wait, if known.' },
        },
        securitySchemes: {
          key: { type: 'http', scheme: 'bearer', description: 'An API key: `Authorization: Bearer dm_…`' },
        },
      },
    },
    transform: (options) => {
      const { schema, url } = jsonSchemaTransform(options)
      if (schema?.hide === true) return { schema, url }
      return { schema: { ...schema, ...declared(options.route) }, url }
    },
    transformObject: (options) => tidySchemas(describeOperations(jsonSchemaTransformObject(options))),
  })
}

/**
 * Zod omits examples and defaults of transformed input, because they may belong to the other side. Ours are of the
 * input.
 */
function keepExamplesAndDefaults({
  zodSchema,
  jsonSchema,
}: {
  zodSchema: z.core.$ZodType
  jsonSchema: object
}): void {
  const { examples, default: byDefault } = z.globalRegistry.get(zodSchema) ?? {}
  if (examples !== undefined) Object.assign(jsonSchema, { examples })
  if (byDefault !== undefined) Object.assign(jsonSchema, { default: byDefault })
  if (zodSchema._zod.def.type === 'undefined') Object.assign(jsonSchema, { type: 'null' })
}

/** What a route's config says and its schema does not. `describeOperations` removes the extensions again. */
function declared({ config, schema }: RouteOptions): Record<string, unknown> {
  const scope = config?.scope ?? 'open'
  return {
    security: scope === 'open' ? [] : [{ key: [] }],
    'x-scope': scope,
    'x-body-optional': schema?.body instanceof z.ZodType && schema.body.safeParse(undefined).success,
    'x-error-codes': errorCodes({
      scope,
      own: config?.errors ?? [],
      hasInput:
        schema?.body !== undefined || schema?.params !== undefined || schema?.querystring !== undefined,
      hasBody: schema?.body !== undefined,
    }),
  }
}

/** The route's own errors and those of its kind, in the order of the registry. */
function errorCodes(route: {
  scope: string
  own: readonly ErrorCode[]
  hasInput: boolean
  hasBody: boolean
}): ErrorCode[] {
  const codes = new Set<ErrorCode>([...route.own, 'internal'])
  if (route.scope !== 'open') for (const code of KEY_ERRORS) codes.add(code)
  if (route.hasInput) codes.add('invalid_argument')
  if (route.hasBody) for (const code of BODY_ERRORS) codes.add(code)
  return (Object.keys(ERRORS) as ErrorCode[]).filter((code) => codes.has(code))
}

const KEY_ERRORS: readonly ErrorCode[] = ['unauthorized', 'scope_missing', 'rate_limited']
const BODY_ERRORS: readonly ErrorCode[] = ['too_large', 'unsupported_media_type', 'request_timeout']
