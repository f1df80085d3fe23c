import { onAbort } from '@dormouse/async'
import type { ErrorCode } from '@dormouse/contracts'
import {
  eventsHeaders,
  eventsQuery,
  interruptAnswerSchema,
  listRunsQuery,
  runEventSchema,
  runInputSchema,
  runPageSchema,
  runParams,
  runResultSchema,
  runSchema,
  runWithResultSchema,
} from '@dormouse/contracts/http'
import { z } from 'zod'
import { negotiate } from '../accept.ts'
import { disconnected, NDJSON, SSE, sendEvents } from '../event-stream.ts'
import { RUN_BODY_MAX_BYTES } from '../limits.ts'
import { emptyBody, json, nothing, type Routes, sandboxParams } from '../route.ts'

const tags = ['runs']
export const JSON_TYPE = 'application/json'

/** The event content types of a route. */
export const eventContent = {
  [NDJSON]: { schema: runEventSchema },
  [SSE]: { schema: z.string().describe('One event per `data:`, its `seq` as `id:`.') },
}

const RUN_ERRORS: ErrorCode[] = [
  'not_found',
  'not_acceptable',
  'idempotency_mismatch',
  'conflict',
  'limit_reached',
  'memory_limit',
  'language_missing',
  'snapshot_unusable',
  'restore_failed',
  'burrow_ended',
  'agent_unreachable',
  'run_unfinished',
  'overloaded',
  'no_space',
]

export const runRoutes: Routes = (app, services) => {
  runRoute(app, services)
  listRunsRoute(app, services)
  getRunRoute(app, services)
  followRunRoute(app, services)
  interruptRunRoute(app, services)
  answerRunRoute(app, services)
}

const runRoute: Routes = (app, { sandboxes, runs }) => {
  app.post(
    '/v1/sandboxes/:id/run',
    {
      config: { scope: 'run', errors: RUN_ERRORS },
      bodyLimit: RUN_BODY_MAX_BYTES,
      schema: {
        operationId: 'run',
        summary: 'Run code in a sandbox',
        description:
          'Wakes the sandbox if necessary. One run at a time per context; the others wait in order. An error in the code is a result, not an HTTP error. An accepted run starts exactly once, even if the server restarts before. With `timeoutMs` the call ends by then: with the result, or with `run_unfinished` when the sandbox was put to standby or does not answer.',
        tags,
        params: sandboxParams,
        body: runSchema,
        response: {
          200: {
            description: 'The whole run as JSON when it has ended, or its events as a stream.',
            content: { [JSON_TYPE]: { schema: runResultSchema }, ...eventContent },
          },
        },
      },
    },
    async (request, reply) => {
      const type = negotiate(request.headers.accept, [JSON_TYPE, NDJSON, SSE])
      const { onDisconnect, ...wanted } = request.body
      const sandbox = sandboxes.get(request.params.id, request.key)
      const gone = disconnected(reply)
      const run = await runs.start(sandbox, wanted)
      // Sent before the first event, which may take long when other runs come first: the caller can already interrupt
      // the run.
      reply.header('x-run-id', run.runId)
      let isOver = false
      const interrupt = () => {
        if (isOver) return
        runs
          .interrupt(sandbox, run.runId)
          .catch((err: unknown) => request.log.warn({ err }, 'a run could not be interrupted'))
      }
      if (onDisconnect === 'interrupt') onAbort(gone, interrupt)
      if (type === JSON_TYPE) {
        const result = await run.result(gone)
        isOver = true
        return result
      }
      await sendEvents(
        request,
        reply,
        type,
        noting(run.events({ signal: gone }), () => {
          isOver = true
        }),
      )
      return reply
    },
  )
}

const listRunsRoute: Routes = (app, { sandboxes, runs }) => {
  app.get(
    '/v1/sandboxes/:id/runs',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'listRuns',
        summary: 'List the runs of a sandbox',
        tags,
        params: sandboxParams,
        querystring: listRunsQuery,
        response: { 200: json('A page of runs.', runPageSchema) },
      },
    },
    async (request) => runs.list(sandboxes.get(request.params.id, request.key), request.query),
  )
}

const getRunRoute: Routes = (app, { sandboxes, runs }) => {
  app.get(
    '/v1/sandboxes/:id/runs/:runId',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'getRun',
        summary: 'Get a run',
        tags,
        params: runParams,
        response: { 200: json('Its state, and its result once it has ended.', runWithResultSchema) },
      },
    },
    async (request, reply) => {
      const run = runs.get(sandboxes.get(request.params.id, request.key), request.params.runId)
      const view = run.view()
      return view.state === 'finished' ? { ...view, result: await run.result(disconnected(reply)) } : view
    },
  )
}

const followRunRoute: Routes = (app, { sandboxes, runs }) => {
  app.get(
    '/v1/sandboxes/:id/runs/:runId/events',
    {
      config: { scope: 'read', errors: ['not_found', 'not_acceptable', 'agent_unreachable', 'no_space'] },
      schema: {
        operationId: 'followRun',
        summary: 'Replay and follow the events of a run',
        description:
          'First from the journal, then live, until `exit`; across dropped connections, standby and restarts of the server. `truncated` stands for events that the journal no longer has. Does not wake the sandbox.',
        tags,
        params: runParams,
        querystring: eventsQuery,
        headers: eventsHeaders,
        response: {
          200: { description: 'Events.', content: eventContent },
          204: z
            .undefined()
            .describe('SSE only: `Last-Event-ID` was the last event. Browsers stop reconnecting.'),
        },
      },
    },
    async (request, reply) => {
      const type = negotiate(request.headers.accept, [NDJSON, SSE])
      const run = runs.get(sandboxes.get(request.params.id, request.key), request.params.runId)
      const last = type === SSE ? request.headers['last-event-id'] : undefined
      const { follow, after } = request.query
      const events = run.events({ after: last ?? after, follow, signal: disconnected(reply) })
      if (last === undefined || run.view().state === 'running' || run.view().state === 'queued') {
        await sendEvents(request, reply, type, events)
        return reply
      }
      const iterator = events[Symbol.asyncIterator]()
      const first = await iterator.next()
      if (first.done === true) return reply.code(204).send()
      await sendEvents(request, reply, type, startingWith(first.value, iterator))
      return reply
    },
  )
}

const interruptRunRoute: Routes = (app, { sandboxes, runs }) => {
  app.post(
    '/v1/sandboxes/:id/runs/:runId/interrupt',
    {
      config: { scope: 'run', errors: ['not_found', 'agent_unreachable'] },
      schema: {
        operationId: 'interruptRun',
        summary: 'Interrupt a run',
        description: 'Raises KeyboardInterrupt. The context and its variables stay.',
        tags,
        params: runParams,
        body: emptyBody,
        response: { 200: json('The interrupt was sent.', interruptAnswerSchema) },
      },
    },
    async (request) => ({
      outcome: await runs.interrupt(sandboxes.get(request.params.id, request.key), request.params.runId),
    }),
  )
}

const answerRunRoute: Routes = (app, { sandboxes, runs }) => {
  app.post(
    '/v1/sandboxes/:id/runs/:runId/input',
    {
      config: { scope: 'run', errors: ['not_found', 'conflict', 'agent_unreachable'] },
      schema: {
        operationId: 'answerRun',
        summary: 'Answer `input()` of a run',
        description:
          'For runs that were started with `input: true` and sent an `input` event. The second answer to an event is a `conflict`.',
        tags,
        params: runParams,
        body: runInputSchema,
        response: { 204: nothing('The code has the answer.') },
      },
    },
    async (request, reply) => {
      const sandbox = sandboxes.get(request.params.id, request.key)
      await runs.input(sandbox, request.params.runId, request.body)
      return reply.code(204).send()
    },
  )
}

/** Calls `onExit` when the last event of a run has passed. */
async function* noting<Event extends { type: string }>(
  events: AsyncIterable<Event>,
  onExit: () => void,
): AsyncIterable<Event> {
  for await (const event of events) {
    if (event.type === 'exit') onExit()
    yield event
  }
}

async function* startingWith<Event>(first: Event, rest: AsyncIterator<Event>): AsyncIterable<Event> {
  yield first
  yield* { [Symbol.asyncIterator]: () => rest }
}
