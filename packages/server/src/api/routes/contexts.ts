import {
  completeSchema,
  completionsSchema,
  contextListSchema,
  contextNameField,
  contextSchema,
  createContextSchema,
  eventsQuery,
} from '@dormouse/contracts/http'
import type { ContextInfo } from '@dormouse/engine'
import { negotiate } from '../accept.ts'
import { disconnected, NDJSON, SSE, sendEvents } from '../event-stream.ts'
import { followContext, getContext } from '../guest/follow-context.ts'
import { json, nothing, type Routes, sandboxParams } from '../route.ts'
import { GUEST_ERRORS } from './guest-errors.ts'
import { eventContent } from './runs.ts'

const url = '/v1/sandboxes/:id/contexts'
const tags = ['contexts']
const contextParams = sandboxParams.extend({ name: contextNameField })

/** More than one REPL in a sandbox. */
export const contextRoutes: Routes = (app, services) => {
  listContextsRoute(app, services)
  createContextRoute(app, services)
  deleteContextRoute(app, services)
  followContextOutputRoute(app, services)
  completeRoute(app, services)
}

const listContextsRoute: Routes = (app, { sandboxes }) => {
  app.get(
    url,
    {
      config: { scope: 'read', errors: [...GUEST_ERRORS] },
      schema: {
        operationId: 'listContexts',
        summary: 'List contexts',
        tags,
        params: sandboxParams,
        response: { 200: json('All contexts.', contextListSchema) },
      },
    },
    async (request, reply) => {
      const sandbox = sandboxes.get(request.params.id, request.key)
      const work = { cause: 'context', what: 'listing contexts', signal: disconnected(reply) } as const
      return { items: (await sandbox.use(work, (guest) => guest.contexts.list())).map(contextView) }
    },
  )
}

const createContextRoute: Routes = (app, { sandboxes }) => {
  app.post(
    url,
    {
      config: {
        scope: 'run',
        errors: [
          ...GUEST_ERRORS,
          'already_exists',
          'permission_denied',
          'not_a_directory',
          'language_missing',
        ],
      },
      schema: {
        operationId: 'createContext',
        summary: 'Create a context',
        tags,
        params: sandboxParams,
        body: createContextSchema,
        response: { 201: json('The context is starting and accepts runs.', contextSchema) },
      },
    },
    async (request, reply) => {
      const sandbox = sandboxes.get(request.params.id, request.key)
      const { name, ...options } = request.body
      const created = await sandbox.use({ cause: 'context', what: `creating context ${name}` }, (guest) =>
        guest.contexts.create({ context: name, ...options }),
      )
      return reply.code(201).send(contextView(created))
    },
  )
}

const deleteContextRoute: Routes = (app, { sandboxes }) => {
  app.delete(
    `${url}/:name`,
    {
      config: { scope: 'run', errors: [...GUEST_ERRORS] },
      schema: {
        operationId: 'deleteContext',
        summary: 'Delete a context',
        description: 'Interrupts its runs. Deleting `default` replaces it by a new one.',
        tags,
        params: contextParams,
        response: { 204: nothing('The context was deleted.') },
      },
    },
    async (request, reply) => {
      const { id, name } = request.params
      const sandbox = sandboxes.get(id, request.key)
      await sandbox.use({ cause: 'context', what: `deleting context ${name}` }, (guest) =>
        guest.contexts.delete(name),
      )
      return reply.code(204).send()
    },
  )
}

const followContextOutputRoute: Routes = (app, { sandboxes }) => {
  app.get(
    `${url}/:name/output`,
    {
      config: { scope: 'read', errors: [...GUEST_ERRORS, 'not_acceptable'] },
      schema: {
        operationId: 'followContextOutput',
        summary: 'Follow output between runs',
        description: 'Output of threads and child processes that outlive the run that started them.',
        tags,
        params: contextParams,
        querystring: eventsQuery,
        response: { 200: { description: 'Events.', content: eventContent } },
      },
    },
    async (request, reply) => {
      const type = negotiate(request.headers.accept, [NDJSON, SSE])
      const { id, name } = request.params
      const sandbox = sandboxes.get(id, request.key)
      const signal = disconnected(reply)
      await getContext(sandbox, name, signal)
      await sendEvents(request, reply, type, followContext(sandbox, name, { ...request.query, signal }))
      return reply
    },
  )
}

const completeRoute: Routes = (app, { sandboxes }) => {
  app.post(
    `${url}/:name/complete`,
    {
      config: { scope: 'run', errors: [...GUEST_ERRORS, 'conflict'] },
      schema: {
        operationId: 'completeCode',
        summary: 'Complete half-typed code',
        description:
          'Names that fit the end of code in Python, JavaScript or TypeScript: variables, attributes, in Python also modules and files in strings. May execute properties of objects, for at most two seconds. `conflict` while the context has a run, and in contexts of other languages.',
        tags,
        params: contextParams,
        body: completeSchema,
        response: { 200: json('The matches.', completionsSchema) },
      },
    },
    async (request, reply) => {
      const { id, name } = request.params
      const signal = disconnected(reply)
      const work = { cause: 'context', what: `completing code in context ${name}`, signal } as const
      return sandboxes
        .get(id, request.key)
        .use(work, (guest) => guest.contexts.complete(name, request.body.code, { signal }))
    },
  )
}

function contextView({ context, ...rest }: ContextInfo) {
  const { language, user, pid, state, restarts } = rest
  return { name: context, language, user, pid, state, restarts }
}
