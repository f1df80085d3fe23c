import { DormouseError } from '@dormouse/contracts'
import {
  CELLS_MAX,
  contextNameField,
  readVariableQuery,
  variableDetailSchema,
  variableNameField,
  variablesSchema,
} from '@dormouse/contracts/http'
import { disconnected } from '../event-stream.ts'
import { json, type Routes, sandboxParams } from '../route.ts'
import { GUEST_ERRORS } from './guest-errors.ts'

const tags = ['contexts']
const variableParams = sandboxParams.extend({ name: contextNameField, variable: variableNameField })
const FILTERS_MAX = 8

/** What contexts have in memory. */
export const variableRoutes: Routes = (app, services) => {
  listVariablesRoute(app, services)
  readVariableRoute(app, services)
}

const listVariablesRoute: Routes = (app, { sandboxes }) => {
  app.get(
    '/v1/sandboxes/:id/variables',
    {
      config: { scope: 'read', errors: [...GUEST_ERRORS] },
      schema: {
        operationId: 'listVariables',
        summary: 'List variables',
        description:
          'The variables of all contexts, with type, shape, size and a preview. Runs no code of the sandbox: values of types that are not known show their type only. Does not wake a sleeping sandbox, whose variables were recorded when it was saved, and does not keep an awake one awake.',
        tags,
        params: sandboxParams,
        response: { 200: json('The variables.', variablesSchema) },
      },
    },
    async (request, reply) =>
      sandboxes.get(request.params.id, request.key).reader.variables(disconnected(reply)),
  )
}

const readVariableRoute: Routes = (app, { sandboxes }) => {
  app.get(
    '/v1/sandboxes/:id/contexts/:name/variables/:variable',
    {
      config: { scope: 'read', errors: [...GUEST_ERRORS, 'conflict', 'too_large'] },
      schema: {
        operationId: 'readVariable',
        summary: 'Read a variable',
        description:
          'A window of the rows of a table, list or array, sorted and filtered; a picture; or a text. Runs no code of the sandbox. Wakes a sleeping sandbox. `conflict` while the context has a run, `too_large` for tables that are too large to be sorted here.',
        tags,
        params: variableParams,
        querystring: readVariableQuery,
        response: { 200: json('The variable.', variableDetailSchema) },
      },
    },
    async (request, reply) => {
      const { id, name, variable } = request.params
      const { filter = {}, ...window } = request.query
      const filters = Object.entries(filter).map(([column, text]) => [Number(column), text] as const)
      requireSmall(window, filters)
      const signal = disconnected(reply)
      const work = { cause: 'context', what: `reading variable ${variable}`, signal } as const
      return sandboxes
        .get(id, request.key)
        .use(work, (guest) =>
          guest.variables.rows({ context: name, name: variable, ...window, filters }, { signal }),
        )
    },
  )
}

function requireSmall(
  { limit, columns }: { limit: number; columns: number },
  filters: readonly unknown[],
): void {
  if (limit * columns > CELLS_MAX)
    throw new DormouseError('invalid_argument', `limit: asks for more than ${CELLS_MAX} cells`, {
      details: { field: 'limit' },
    })
  if (filters.length > FILTERS_MAX)
    throw new DormouseError('invalid_argument', `filter: at most ${FILTERS_MAX} are allowed`, {
      details: { field: 'filter' },
    })
}
