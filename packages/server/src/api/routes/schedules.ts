import {
  createScheduleSchema,
  firingListSchema,
  firingSchema,
  listSchedulesQuery,
  schedulePageSchema,
  scheduleParams,
  scheduleSchema,
  updateScheduleSchema,
} from '@dormouse/contracts/http'
import { JOB_BODY_MAX_BYTES } from '../limits.ts'
import { emptyBody, json, nothing, type Routes } from '../route.ts'

const tags = ['schedules']

export const scheduleRoutes: Routes = (app, services) => {
  createScheduleRoute(app, services)
  listSchedulesRoute(app, services)
  getScheduleRoute(app, services)
  updateScheduleRoute(app, services)
  deleteScheduleRoute(app, services)
  fireScheduleRoute(app, services)
  listFiringsRoute(app, services)
}

const createScheduleRoute: Routes = (app, { schedules }) => {
  app.post(
    '/v1/schedules',
    {
      config: { scope: 'run', errors: ['name_taken', 'limit_reached', 'no_space'] },
      bodyLimit: JOB_BODY_MAX_BYTES,
      schema: {
        operationId: 'createSchedule',
        summary: 'Do something at the times of a cron expression',
        description:
          'Each time fires once, also when the server is killed. A run and a job are started once for each firing; a request is sent at most once, with an `Idempotency-Key`.',
        tags,
        body: createScheduleSchema,
        response: { 201: json('The schedule.', scheduleSchema) },
      },
    },
    async (request, reply) => reply.code(201).send(schedules.create(request.body, request.key)),
  )
}

const listSchedulesRoute: Routes = (app, { schedules }) => {
  app.get(
    '/v1/schedules',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'listSchedules',
        summary: 'List schedules',
        tags,
        querystring: listSchedulesQuery,
        response: { 200: json('A page of schedules.', schedulePageSchema) },
      },
    },
    async (request) => schedules.list(request.query, request.key),
  )
}

const getScheduleRoute: Routes = (app, { schedules }) => {
  app.get(
    '/v1/schedules/:name',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'getSchedule',
        summary: 'Get a schedule, its next time and its last firing',
        tags,
        params: scheduleParams,
        response: { 200: json('The schedule.', scheduleSchema) },
      },
    },
    async (request) => schedules.get(request.params.name, request.key),
  )
}

const updateScheduleRoute: Routes = (app, { schedules }) => {
  app.patch(
    '/v1/schedules/:name',
    {
      config: { scope: 'run', errors: ['not_found', 'no_space'] },
      bodyLimit: JOB_BODY_MAX_BYTES,
      schema: {
        operationId: 'updateSchedule',
        summary: 'Change a schedule, or turn it off and on',
        description: 'Times that pass while it is off are not missed.',
        tags,
        params: scheduleParams,
        body: updateScheduleSchema,
        response: { 200: json('The schedule.', scheduleSchema) },
      },
    },
    async (request) => schedules.update(request.params.name, request.body, request.key),
  )
}

const deleteScheduleRoute: Routes = (app, { schedules }) => {
  app.delete(
    '/v1/schedules/:name',
    {
      config: { scope: 'run', errors: ['not_found'] },
      schema: {
        operationId: 'deleteSchedule',
        summary: 'Delete a schedule',
        description: 'What it has started continues.',
        tags,
        params: scheduleParams,
        response: { 204: nothing('The schedule was deleted.') },
      },
    },
    async (request, reply) => {
      schedules.delete(request.params.name, request.key)
      return reply.code(204).send()
    },
  )
}

const fireScheduleRoute: Routes = (app, { schedules }) => {
  app.post(
    '/v1/schedules/:name/fire',
    {
      config: { scope: 'run', errors: ['not_found', 'conflict', 'no_space'] },
      schema: {
        operationId: 'fireSchedule',
        summary: 'Fire a schedule now, beside its times',
        tags,
        params: scheduleParams,
        body: emptyBody,
        response: { 200: json('What came of it.', firingSchema) },
      },
    },
    async (request) => schedules.fire(request.params.name, request.key),
  )
}

const listFiringsRoute: Routes = (app, { schedules }) => {
  app.get(
    '/v1/schedules/:name/firings',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'listFirings',
        summary: 'List the latest firings of a schedule, newest first',
        tags,
        params: scheduleParams,
        response: { 200: json('At most 100.', firingListSchema) },
      },
    },
    async (request) => ({ items: schedules.firings(request.params.name, request.key) }),
  )
}
