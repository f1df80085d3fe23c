import { DormouseError } from '@dormouse/contracts'
import { attachTerminalQuery, openTerminalQuery } from '@dormouse/contracts/http'
import type { FastifyRequest } from 'fastify'
import type { WebSocket } from 'ws'
import { z } from 'zod'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import { getProcess } from '../guest/follow-process.ts'
import { startProcess } from '../guest/start-process.ts'
import { TerminalSocket } from '../guest/terminal-socket.ts'
import { type Routes, sandboxParams } from '../route.ts'
import { requireUtf8Queries } from '../utf8-query.ts'
import { GUEST_ERRORS } from './guest-errors.ts'
import { processParams } from './processes.ts'

const tags = ['processes']
const upgraded = z
  .undefined()
  .describe(
    'A WebSocket. Binary messages: bytes to and from the terminal. Text messages, JSON: `{type: "resize", cols, rows}` and `{type: "signal", signal}` to it; `start` {processId, pid, seq}, `truncated`, `exit` {exitCode} and `error` from it. The shell lives on when the socket ends.',
  )

/** Terminals. An open socket keeps the sandbox awake; typing wakes it. */
export const ptyRoutes: Routes = (app, services) => {
  requireUtf8Queries(app)
  openTerminalRoute(app, services)
  attachTerminalRoute(app, services)
}

const openTerminalRoute: Routes = (app, { sandboxes }) => {
  app.route({
    method: 'GET',
    url: '/v1/sandboxes/:id/pty',
    config: { scope: 'run', errors: [...GUEST_ERRORS] },
    schema: {
      operationId: 'openTerminal',
      summary: 'Open a shell in a terminal (WebSocket)',
      description:
        'Browsers cannot set `Authorization`: they may offer the protocols `dormouse.v1` and `dormouse.bearer.<key>`.',
      tags,
      params: sandboxParams,
      querystring: openTerminalQuery,
      response: { 101: upgraded },
    },
    preHandler: async (request) => {
      sandboxes.get(request.params.id, request.key)
    },
    handler: refusePlainHttp,
    wsHandler: async (socket, request) => {
      const sandbox = sandboxes.get((request.params as { id: string }).id, request.key)
      const terminal = terminalOf(socket, request, sandbox)
      try {
        const { command, cols, rows, ...options } = request.query as z.output<typeof openTerminalQuery>
        const what = command === undefined ? { args: ['/bin/bash', '-i'] } : { command }
        const env = { TERM: 'xterm-256color' }
        const started = await startProcess(
          sandbox,
          { ...what, ...options, env, pty: { cols, rows } },
          terminal.signal,
        )
        await terminal.show(started, -1)
      } catch (error) {
        terminal.fail(error)
      }
    },
  })
}

const attachTerminalRoute: Routes = (app, { sandboxes }) => {
  app.route({
    method: 'GET',
    url: '/v1/sandboxes/:id/processes/:processId/pty',
    config: { scope: 'run', errors: [...GUEST_ERRORS, 'conflict'] },
    schema: {
      operationId: 'attachTerminal',
      summary: 'Attach to the terminal of a process (WebSocket)',
      tags,
      params: processParams,
      querystring: attachTerminalQuery,
      response: { 101: upgraded },
    },
    preHandler: async (request) => {
      const { id, processId } = request.params
      const { pty } = await getProcess(sandboxes.get(id, request.key), processId)
      if (!pty) throw new DormouseError('conflict', `process ${processId} has no terminal`)
    },
    handler: refusePlainHttp,
    wsHandler: async (socket, request) => {
      const { id, processId } = request.params as z.output<typeof processParams>
      const { after } = request.query as z.output<typeof attachTerminalQuery>
      const sandbox = sandboxes.get(id, request.key)
      const terminal = terminalOf(socket, request, sandbox)
      try {
        await terminal.show(await getProcess(sandbox, processId, terminal.signal), after)
      } catch (error) {
        terminal.fail(error)
      }
    },
  })
}

function terminalOf(socket: WebSocket, request: FastifyRequest, sandbox: SandboxHandle): TerminalSocket {
  const { id: requestId, log, key, server } = request
  return new TerminalSocket({
    socket,
    sandbox,
    requestId,
    log,
    answers: server.errorAnswers,
    revoked: key.revoked,
  })
}

async function refusePlainHttp(): Promise<never> {
  throw new DormouseError('invalid_argument', 'this route is a WebSocket', {
    hint: 'Connect with a WebSocket client: `Connection: Upgrade`, `Upgrade: websocket`.',
  })
}
