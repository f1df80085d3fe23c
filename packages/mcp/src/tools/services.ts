import { setTimeout as sleep } from 'node:timers/promises'
import { ISOLATIONS } from '@dormouse/contracts'
import { type Dormouse, DormouseError, type Service } from 'dormouse'
import { z } from 'zod'
import { waitInput } from '../fields.ts'
import { LOG_LINES_DEFAULT, LOG_LINES_MAX, SERVICES_LISTED_MAX, WAIT_DEFAULT_MS } from '../limits.ts'
import { defineTool, type ToolCall } from '../tool.ts'

const POLL_MS = 250

const serviceOutput = z.object({
  name: z.string(),
  url: z.string(),
  public: z.boolean().describe('When false, requests need an API key.'),
  version: z.int().optional().describe('The version that serves.'),
  versions: z
    .array(z.object({ version: z.int(), state: z.string(), error: z.string().optional() }))
    .describe('Newest first: `building`, `starting`, `ready` or `failed`.'),
  replicas: z.int().describe('Sandboxes that serve it, awake or asleep.'),
})

export const deployService = defineTool({
  name: 'deploy_service',
  title: 'Deploy a service',
  description: `Serve a program at a stable URL, from a template or a container image. It sleeps when no request comes and \
wakes with its memory for the next one, so it costs nothing while it is unused. Deploying a name again makes a new \
version, and requests move to it when it answers; if it fails, the version before keeps serving. Use it for an API, a web \
page or an MCP server that outlives this conversation; for a quick look at a server in a sandbox use preview_url. Returns \
the URL and the versions.`,
  input: z.strictObject({
    name: z.string().min(1).describe('Letters, digits, ".", "_" and "-".'),
    port: z.int().min(1).max(65_535).describe('The TCP port that the program listens on, also in `$PORT`.'),
    start: z.string().min(1).optional().describe('The command that serves. Default: that of the image.'),
    template: z.string().min(1).optional().describe('See list_templates. Default: `python`.'),
    image: z.string().min(1).optional().describe('A container image instead, such as `nginx:alpine`.'),
    env: z.record(z.string(), z.string()).optional().describe('Environment variables of the program.'),
    secrets: z.array(z.string()).optional().describe('Names of secrets that it may use.'),
    isolation: z.enum(ISOLATIONS).optional().describe('As for create_sandbox.'),
    public: z
      .boolean()
      .optional()
      .describe('Whether anyone may send requests. Default: as before, at first no.'),
    waitMs: waitInput.describe(
      `How many milliseconds to wait until it serves. Then returns what there is; the deployment continues. \
Default: ${WAIT_DEFAULT_MS}.`,
    ),
  }),
  output: serviceOutput,
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  call: async ({ name, port, public: isPublic, waitMs = WAIT_DEFAULT_MS, ...how }, call) => {
    const { client } = call.conversation
    const { start, template, image, env, secrets, isolation } = how
    const request = {
      port,
      ...(start !== undefined && { start }),
      ...(template !== undefined && { template }),
      ...(image !== undefined && { image }),
      ...(env !== undefined && { env }),
      ...(secrets !== undefined && { secrets }),
      ...(isolation !== undefined && { isolation }),
      ...(isPublic !== undefined && { public: isPublic }),
    }
    const begun = await client.services.deploy(name, request, { background: true, signal: call.signal })
    return { structured: describe(await settled(client, begun, waitMs, call.signal)) }
  },
})

/** The service when its newest version serves, or when the time is over. Throws when that version has failed. */
async function settled(
  client: Dormouse,
  begun: Service,
  waitMs: number,
  signal: AbortSignal,
): Promise<Service> {
  const version = begun.versions[0]?.version
  const end = performance.now() + waitMs
  for (let service = begun; ; service = await client.services.get(begun.name, { signal })) {
    const found = service.versions.find((one) => one.version === version)
    if (found?.state === 'failed')
      throw new DormouseError('setup_failed', `Version ${version} failed: ${found.error ?? ''}`, {
        hint: 'Correct what the message says, and deploy again. `services` has its log.',
      })
    if (found?.isCurrent === true || performance.now() >= end) return service
    await sleep(POLL_MS, undefined, { signal })
  }
}

export const services = defineTool({
  name: 'services',
  title: 'Manage services',
  description: `List services, read what their programs print, roll one back to an older version, or delete one with its \
versions. A rollback serves the state in which that version was ready, as fast as a wake. Reading logs wakes nothing. \
deploy_service makes a service. Returns the services, and for \`logs\` the lines, oldest first.`,
  input: z.strictObject({
    action: z.enum(['list', 'logs', 'rollback', 'delete']).describe('What to do.'),
    name: z.string().min(1).optional().describe('The service. Required unless you list.'),
    version: z.int().min(1).optional().describe('For `rollback`. Default: the one before.'),
    search: z.string().min(1).optional().describe('For `logs`: only lines that contain this text.'),
    tail: z
      .int()
      .min(1)
      .max(LOG_LINES_MAX)
      .optional()
      .describe(`For \`logs\`: at most this many of the newest lines. Default: ${LOG_LINES_DEFAULT}.`),
    cursor: z.string().min(1).optional().describe('For `list`: `nextCursor` of the previous result.'),
  }),
  output: z.object({
    services: z.array(serviceOutput),
    lines: z
      .array(z.object({ at: z.string(), version: z.int(), stream: z.string(), text: z.string() }))
      .optional(),
    nextCursor: z.string().optional().describe('There are more: call again with this `cursor`.'),
  }),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  call: async ({ action, cursor, ...input }, { conversation, signal }) => {
    const { client } = conversation
    if (action === 'list') {
      const page = await client.services.list({ signal }).page({ limit: SERVICES_LISTED_MAX, cursor })
      return { structured: { services: page.items.map(describe), nextCursor: page.nextCursor } }
    }
    const name = required(input.name, action)
    if (action === 'delete') {
      await client.services.delete(name, { signal })
      return { structured: { services: [] } }
    }
    if (action === 'logs') return { structured: await readLogs(client, name, { ...input, signal }) }
    const { version } = input
    const service = await client.services.rollback(name, {
      signal,
      ...(version !== undefined && { version }),
    })
    return { structured: { services: [describe(service)] } }
  },
})

async function readLogs(
  client: Dormouse,
  name: string,
  { search, tail = LOG_LINES_DEFAULT, signal }: ReadLogs,
) {
  const lines: { at: string; version: number; stream: string; text: string }[] = []
  for await (const { at, version, stream, text } of client.services.logs(name, { search, tail, signal }))
    lines.push({ at, version, stream, text })
  return { services: [describe(await client.services.get(name, { signal }))], lines }
}

interface ReadLogs extends Pick<ToolCall, 'signal'> {
  readonly search?: string | undefined
  readonly tail?: number | undefined
}

function describe(service: Service): z.input<typeof serviceOutput> {
  const { name, url, version, versions, replicas } = service
  return {
    ...{ name, url, public: service.public, version, replicas: replicas.items.length },
    versions: versions.map((one) => ({ version: one.version, state: one.state, error: one.error })),
  }
}

function required(name: string | undefined, action: string): string {
  if (name !== undefined) return name
  throw new DormouseError('invalid_argument', `name: is required to ${action} a service`)
}
