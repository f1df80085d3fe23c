import { DormouseError } from '@dormouse/contracts'
import {
  createLinkSchema,
  linkSchema,
  portListSchema,
  portParams,
  portSchema,
  setPortSchema,
  waitForPortSchema,
} from '@dormouse/contracts/http'
import { z } from 'zod'
import { previewUrl } from '../../ports/preview-address.ts'
import { disconnected } from '../event-stream.ts'
import { getPort, listPorts, waitForPort } from '../guest/list-ports.ts'
import { relayPort } from '../guest/port-socket.ts'
import { TOKEN_PARAMETER } from '../preview/credentials.ts'
import { publicOrigin } from '../preview/forwarded-headers.ts'
import { json, type Routes, sandboxParams } from '../route.ts'
import { GUEST_ERRORS } from './guest-errors.ts'

const tags = ['ports']
const url = '/v1/sandboxes/:id/ports'

/** Routes about ports. Requests to a port are served by `preview/`. */
export const portRoutes: Routes = (app, services) => {
  listPortsRoute(app, services)
  getPortRoute(app, services)
  setPortRoute(app, services)
  createPortLinkRoute(app, services)
  waitForPortRoute(app, services)
  connectPortRoute(app, services)
}

const listPortsRoute: Routes = (app, { sandboxes, ports }) => {
  app.get(
    url,
    {
      config: { scope: 'read', errors: [...GUEST_ERRORS] },
      schema: {
        operationId: 'listPorts',
        summary: 'List listening and public ports',
        tags,
        params: sandboxParams,
        response: { 200: json('All ports, by number.', portListSchema) },
      },
    },
    async (request, reply) => {
      const sandbox = sandboxes.get(request.params.id, request.key)
      const context = { sandbox, ports, origin: publicOrigin(request.raw), signal: disconnected(reply) }
      return { items: await listPorts(context) }
    },
  )
}

const getPortRoute: Routes = (app, { sandboxes, ports }) => {
  app.get(
    `${url}/:port`,
    {
      config: { scope: 'read', errors: [...GUEST_ERRORS] },
      schema: {
        operationId: 'getPort',
        summary: 'Get a port',
        description: 'With a slash at the end, the request goes to the program on that port.',
        tags,
        params: portParams,
        response: { 200: json('Whether a program listens, and who may reach the port.', portSchema) },
      },
    },
    async (request, reply) => {
      const { id, port } = request.params
      const sandbox = sandboxes.get(id, request.key)
      const context = { sandbox, ports, origin: publicOrigin(request.raw), signal: disconnected(reply) }
      return await getPort(context, port)
    },
  )
}

const setPortRoute: Routes = (app, { sandboxes, ports }) => {
  app.put(
    `${url}/:port`,
    {
      config: { scope: 'run', errors: [...GUEST_ERRORS] },
      schema: {
        operationId: 'setPort',
        summary: 'Set who may reach a port',
        description: 'Ports are private by default, also in forks. Open connections stay open.',
        tags,
        params: portParams,
        body: setPortSchema,
        response: { 200: json('The port.', portSchema) },
      },
    },
    async (request, reply) => {
      const { id, port } = request.params
      const sandbox = sandboxes.get(id, request.key)
      const context = { sandbox, ports, origin: publicOrigin(request.raw), signal: disconnected(reply) }
      const before = await getPort(context, port)
      ports.setAccess(sandbox.id, port, request.body.access)
      return { ...before, access: request.body.access }
    },
  )
}

const createPortLinkRoute: Routes = (app, { sandboxes, ports }) => {
  app.post(
    `${url}/:port/link`,
    {
      config: { scope: 'run', errors: ['not_found'] },
      schema: {
        operationId: 'createPortLink',
        summary: 'Create a link that opens a port without a key for a limited time',
        description:
          'A browser that opens the link gets a cookie for this port and is redirected to the URL without the token. The link and its connections end when it expires or the key that created it is revoked.',
        tags,
        params: portParams,
        body: createLinkSchema,
        response: { 201: json('Anyone with this link can reach the port.', linkSchema) },
      },
    },
    async (request, reply) => {
      const { id, port } = request.params
      const { expiresInMs, path } = request.body
      const sandboxId = sandboxes.get(id, request.key).id
      const { keyId } = request.key
      const { token, expiresAtMs } = ports.sign({ sandboxId, port, keyId, expiresInMs })
      const origin = publicOrigin(request.raw)
      const [target, fragment] = path.slice(1).split('#', 2)
      const withToken = `${target}${target?.includes('?') ? '&' : '?'}${TOKEN_PARAMETER}=${token}`
      const rest = withToken + (fragment === undefined ? '' : `#${fragment}`)
      return reply.code(201).send({
        url: previewUrl(origin, { sandboxId, port, domain: ports.domain }) + rest,
        pathUrl: previewUrl(origin, { sandboxId, port, domain: undefined }) + rest,
        expiresAt: new Date(expiresAtMs).toISOString(),
      })
    },
  )
}

const waitForPortRoute: Routes = (app, { sandboxes, ports }) => {
  app.post(
    `${url}/:port/wait`,
    {
      config: { scope: 'run', errors: [...GUEST_ERRORS, 'port_closed'] },
      schema: {
        operationId: 'waitForPort',
        summary: 'Wait until a program listens on a port',
        tags,
        params: portParams,
        body: waitForPortSchema,
        response: { 200: json('A program listens on the port.', portSchema) },
      },
    },
    async (request, reply) => {
      const { id, port } = request.params
      const sandbox = sandboxes.get(id, request.key)
      const signal = disconnected(reply)
      await waitForPort(sandbox, port, { ...request.body, signal })
      return await getPort({ sandbox, ports, origin: publicOrigin(request.raw), signal }, port)
    },
  )
}

const connectPortRoute: Routes = (app, { sandboxes, ports }) => {
  app.route({
    method: 'GET',
    url: `${url}/:port/tcp`,
    config: { scope: 'run', errors: ['not_found'] },
    schema: {
      operationId: 'connectPort',
      summary: 'Open a TCP connection to a port (WebSocket)',
      tags,
      params: portParams,
      response: {
        101: z
          .undefined()
          .describe(
            'A WebSocket. Binary messages: bytes. Text messages, JSON: `{type: "start"}` first, `{type: "end"}` in either direction when that half is over, `{type: "error", error}` before it is closed for a reason.',
          ),
      },
    },
    preHandler: async (request) => {
      sandboxes.get(request.params.id, request.key)
    },
    handler: async () => {
      throw new DormouseError('invalid_argument', 'this route is a WebSocket', {
        hint: 'Connect with a WebSocket client: `Connection: Upgrade`, `Upgrade: websocket`.',
      })
    },
    wsHandler: async (socket, request) => {
      const { id, port } = request.params as z.output<typeof portParams>
      const { id: requestId, log, key, server } = request
      await relayPort({
        ...{ socket, port, requestId, log, answers: server.errorAnswers, revoked: key.revoked },
        sandbox: sandboxes.get(id, key),
        idleMs: ports.idleConnectionMs,
      })
    },
  })
}
