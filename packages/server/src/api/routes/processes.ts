import {
  eventsQuery,
  processEventSchema,
  processListSchema,
  processResultSchema,
  processSchema,
  processText,
  signalProcessSchema,
  startProcessSchema,
  terminalSizeSchema,
} from '@dormouse/contracts/http'
import { z } from 'zod'
import { negotiate } from '../accept.ts'
import { disconnected, NDJSON, SSE, sendEvents } from '../event-stream.ts'
import { collectProcess } from '../guest/collect-process.ts'
import { followProcess, getProcess } from '../guest/follow-process.ts'
import { processView, startProcess } from '../guest/start-process.ts'
import { json, nothing, type Routes, sandboxParams } from '../route.ts'
import { GUEST_ERRORS } from './guest-errors.ts'

const JSON_TYPE = 'application/json'
const url = '/v1/sandboxes/:id/processes'
const tags = ['processes']
export const processParams = sandboxParams.extend({ processId: processText })

const eventContent = {
  [NDJSON]: { schema: processEventSchema },
  [SSE]: { schema: z.string().describe('One event per `data:`, its `seq` as `id:`.') },
}

/** Processes: in the background, followed, or waited for. They do not end when a caller disconnects. */
export const processRoutes: Routes = (app, services) => {
  startProcessRoute(app, services)
  listProcessesRoute(app, services)
  getProcessRoute(app, services)
  followProcessRoute(app, services)
  signalProcessRoute(app, services)
  resizeTerminalRoute(app, services)
}

const startProcessRoute: Routes = (app, { sandboxes }) => {
  app.post(
    url,
    {
      config: {
        scope: 'run',
        errors: [...GUEST_ERRORS, 'permission_denied', 'not_a_directory', 'not_acceptable', 'too_large'],
      },
      schema: {
        operationId: 'startProcess',
        summary: 'Start a process',
        description:
          'The process ends by itself, by a signal or by its time-out, not when the caller disconnects.',
        tags,
        params: sandboxParams,
        body: startProcessSchema,
        response: {
          201: json('The process runs in the background.', processSchema),
          200: {
            description: 'With `wait`: its result when it has ended, or its events as a stream.',
            content: { [JSON_TYPE]: { schema: processResultSchema }, ...eventContent },
          },
        },
      },
    },
    async (request, reply) => {
      const type = negotiate(request.headers.accept, [JSON_TYPE, NDJSON, SSE])
      const sandbox = sandboxes.get(request.params.id, request.key)
      const signal = disconnected(reply)
      const { wait, ...what } = request.body
      const started = await startProcess(sandbox, what, signal)
      const events = () => followProcess(sandbox, started.processId, { signal })
      if (type !== JSON_TYPE) {
        await sendEvents(request, reply, type, events())
        return reply
      }
      if (wait) return collectProcess(started, events())
      return reply.code(201).send(started)
    },
  )
}

const listProcessesRoute: Routes = (app, { sandboxes }) => {
  app.get(
    url,
    {
      config: { scope: 'read', errors: [...GUEST_ERRORS] },
      schema: {
        operationId: 'listProcesses',
        summary: 'List processes',
        description: 'Running processes that were started through the API, and the last ones that ended.',
        tags,
        params: sandboxParams,
        response: { 200: json('The processes.', processListSchema) },
      },
    },
    async (request, reply) => {
      const sandbox = sandboxes.get(request.params.id, request.key)
      const work = { cause: 'process', what: 'listing processes', signal: disconnected(reply) } as const
      return { items: (await sandbox.use(work, (guest) => guest.processes.list())).map(processView) }
    },
  )
}

const getProcessRoute: Routes = (app, { sandboxes }) => {
  app.get(
    `${url}/:processId`,
    {
      config: { scope: 'read', errors: [...GUEST_ERRORS] },
      schema: {
        operationId: 'getProcess',
        summary: 'Get a process',
        tags,
        params: processParams,
        response: { 200: json('The process, and how it ended.', processSchema) },
      },
    },
    async (request, reply) => {
      const { id, processId } = request.params
      return processView(await getProcess(sandboxes.get(id, request.key), processId, disconnected(reply)))
    },
  )
}

const followProcessRoute: Routes = (app, { sandboxes }) => {
  app.get(
    `${url}/:processId/events`,
    {
      config: { scope: 'read', errors: [...GUEST_ERRORS, 'not_acceptable'] },
      schema: {
        operationId: 'followProcess',
        summary: 'Replay and follow the events of a process',
        description:
          'First from the journal, then live, until `exit`. Keeps the sandbox awake, and continues after a requested standby. `truncated` stands for events that the journal no longer has.',
        tags,
        params: processParams,
        querystring: eventsQuery,
        response: { 200: { description: 'Events.', content: eventContent } },
      },
    },
    async (request, reply) => {
      const type = negotiate(request.headers.accept, [NDJSON, SSE])
      const { id, processId } = request.params
      const sandbox = sandboxes.get(id, request.key)
      const signal = disconnected(reply)
      const found = await getProcess(sandbox, processId, signal)
      const events = followProcess(sandbox, found.processId, { ...request.query, signal })
      await sendEvents(request, reply, type, events)
      return reply
    },
  )
}

const signalProcessRoute: Routes = (app, { sandboxes }) => {
  app.post(
    `${url}/:processId/signal`,
    {
      config: { scope: 'run', errors: [...GUEST_ERRORS, 'conflict'] },
      schema: {
        operationId: 'signalProcess',
        summary: 'Send a signal to a process and its group',
        tags,
        params: processParams,
        body: signalProcessSchema,
        response: { 204: nothing('The signal was sent.') },
      },
    },
    async (request, reply) => {
      const { id, processId } = request.params
      const { signal } = request.body
      await sandboxes
        .get(id, request.key)
        .use({ cause: 'process', what: `${signal} to process ${processId}` }, (guest) =>
          guest.processes.signal(processId, signal),
        )
      return reply.code(204).send()
    },
  )
}

const resizeTerminalRoute: Routes = (app, { sandboxes }) => {
  app.post(
    `${url}/:processId/resize`,
    {
      config: { scope: 'run', errors: [...GUEST_ERRORS, 'conflict'] },
      schema: {
        operationId: 'resizeTerminal',
        summary: 'Change the size of the terminal of a process',
        tags,
        params: processParams,
        body: terminalSizeSchema,
        response: { 204: nothing('The size was changed.') },
      },
    },
    async (request, reply) => {
      const { id, processId } = request.params
      await sandboxes
        .get(id, request.key)
        .use({ cause: 'process', what: `resizing the terminal of process ${processId}` }, (guest) =>
          guest.processes.resize(processId, request.body),
        )
      return reply.code(204).send()
    },
  )
}
