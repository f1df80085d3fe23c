import { nameField } from '@dormouse/contracts/http'
import type { McpSessions } from '@dormouse/mcp'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { RUN_BODY_MAX_BYTES } from '../api/limits.ts'
import type { Routes } from '../api/route.ts'
import type { LoopbackApi } from './loopback-api.ts'
import type { RequestOrigin } from './origin-checker.ts'
import { sendAnswer } from './send-answer.ts'

export interface McpRoutesOptions {
  readonly sessions: McpSessions
  readonly loopback: LoopbackApi
  readonly checkOrigin: (headers: RequestOrigin) => void
}

const query = z.strictObject({
  sandbox: nameField.exactOptional().describe('The sandbox of conversations that come to this address.'),
})

/** The headers that the protocol reads. The key is not passed on. */
const HEADERS = ['accept', 'content-type', 'mcp-session-id', 'mcp-protocol-version', 'last-event-id']

/** `/mcp` speaks another protocol, so it is not in the OpenAPI document. */
export function mcpRoutes({ sessions, loopback, checkOrigin }: McpRoutesOptions): Routes {
  return (app) => {
    app.route({
      method: ['GET', 'POST', 'DELETE'],
      url: '/mcp',
      bodyLimit: RUN_BODY_MAX_BYTES,
      // Any key may list the tools. Each tool call is authorized again with the same key.
      config: { scope: 'read' },
      schema: { hide: true, querystring: query },
      onRequest: (request, _reply, done) => {
        checkOrigin({ host: request.headers.host, origin: request.headers.origin })
        done()
      },
      handler: async (request, reply) => {
        const answer = await sessions.handle({
          request: toWebRequest(request),
          body: request.body,
          keyId: request.key.keyId,
          revoked: request.key.revoked,
          connect: () => loopback.connect(keyIn(request)),
          sandbox: request.query.sandbox,
        })
        await sendAnswer(reply, answer)
        return reply
      },
    })
  }
}

function toWebRequest({ method, url, headers }: FastifyRequest): Request {
  const kept = HEADERS.flatMap((name): [string, string][] => {
    const value = headers[name]
    return typeof value === 'string' ? [[name, value]] : []
  })
  return new Request(new URL(url, 'http://localhost'), { method, headers: kept })
}

function keyIn({ headers }: FastifyRequest): string {
  return (headers.authorization ?? '').replace(/^Bearer +/i, '').trim()
}
