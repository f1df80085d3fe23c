import {
  createJobSchema,
  type JobAnswer,
  jobEventSchema,
  jobEventsQuery,
  jobPageSchema,
  jobParams,
  jobSchema,
  listJobsQuery,
  listTasksQuery,
  taskPageSchema,
  taskParams,
  taskSchema,
} from '@dormouse/contracts/http'
import { negotiate } from '../accept.ts'
import { HOP_HEADER } from '../cluster/host-connections.ts'
import { disconnected, NDJSON, SSE, sendEvents } from '../event-stream.ts'
import { JOB_BODY_MAX_BYTES } from '../limits.ts'
import { emptyBody, json, nothing, type Routes } from '../route.ts'

const tags = ['jobs']

export const jobRoutes: Routes = (app, services) => {
  createJobRoute(app, services)
  listJobsRoute(app, services)
  getJobRoute(app, services)
  listTasksRoute(app, services)
  getTaskRoute(app, services)
  followJobRoute(app, services)
  cancelJobRoute(app, services)
  deleteJobRoute(app, services)
}

const createJobRoute: Routes = (app, { jobs, placement }) => {
  app.post(
    '/v1/jobs',
    {
      config: {
        scope: 'run',
        errors: [
          ...([
            'not_found',
            'conflict',
            'idempotency_mismatch',
            'limit_reached',
            'snapshot_refused',
          ] as const),
          ...(['too_large', 'overloaded', 'no_space'] as const),
          ...(['isolation_unavailable', 'isolation_unsupported'] as const),
        ],
      },
      bodyLimit: JOB_BODY_MAX_BYTES,
      schema: {
        operationId: 'createJob',
        summary: 'Run code or a command over an array of inputs',
        description:
          'Each input is a task, which runs in a sandbox of its own. The caller may disconnect and the server may restart: each task is executed at least once, and its result is recorded exactly once. Returns when the job is on disk.',
        tags,
        body: createJobSchema,
        response: {
          201: json('The job will run.', jobSchema),
          200: json('`idempotencyKey` was used before, for this job.', jobSchema),
        },
      },
    },
    async (request, reply) => {
      const isPassedOn = request.headers[HOP_HEADER] !== undefined
      const made = isPassedOn ? undefined : await placement?.createJob(request.body, request.key.keyId)
      if (made !== undefined) return reply.code(made.status as 201).send(made.body as JobAnswer)
      const { job, isNew } = await jobs.create(request.body, request.key)
      return reply.code(isNew ? 201 : 200).send(job)
    },
  )
}

const listJobsRoute: Routes = (app, { jobs }) => {
  app.get(
    '/v1/jobs',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'listJobs',
        summary: 'List jobs, newest first',
        tags,
        querystring: listJobsQuery,
        response: { 200: json('A page of jobs.', jobPageSchema) },
      },
    },
    async (request) => jobs.list(request.query, request.key),
  )
}

const getJobRoute: Routes = (app, { jobs }) => {
  app.get(
    '/v1/jobs/:id',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'getJob',
        summary: 'Get a job and its progress',
        tags,
        params: jobParams,
        response: { 200: json('The job.', jobSchema) },
      },
    },
    async (request) => jobs.get(request.params.id, request.key),
  )
}

const listTasksRoute: Routes = (app, { jobs }) => {
  app.get(
    '/v1/jobs/:id/tasks',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'listTasks',
        summary: 'List the tasks of a job by index',
        tags,
        params: jobParams,
        querystring: listTasksQuery,
        response: { 200: json('A page of tasks.', taskPageSchema) },
      },
    },
    async (request) => jobs.tasks(request.params.id, request.query, request.key),
  )
}

const getTaskRoute: Routes = (app, { jobs }) => {
  app.get(
    '/v1/jobs/:id/tasks/:index',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'getTask',
        summary: 'Get a task with its result and output',
        tags,
        params: taskParams,
        response: { 200: json('The task.', taskSchema) },
      },
    },
    async (request) => jobs.task(request.params.id, request.params.index, request.key),
  )
}

const followJobRoute: Routes = (app, { jobs }) => {
  app.get(
    '/v1/jobs/:id/events',
    {
      config: { scope: 'read', errors: ['not_found', 'not_acceptable'] },
      schema: {
        operationId: 'followJob',
        summary: 'Follow the progress of a job',
        description:
          'One event for each task that has ended, in that order, and `end` when the job has ended. A reader that lost its connection continues after the last `seq` it has, also after a restart of the server.',
        tags,
        params: jobParams,
        querystring: jobEventsQuery,
        response: {
          200: {
            description: 'Events.',
            content: { [NDJSON]: { schema: jobEventSchema }, [SSE]: { schema: jobEventSchema } },
          },
        },
      },
    },
    async (request, reply) => {
      const type = negotiate(request.headers.accept, [NDJSON, SSE])
      const { id } = request.params
      jobs.get(id, request.key)
      const options = { ...request.query, signal: disconnected(reply) }
      await sendEvents(request, reply, type, jobs.events(id, options, request.key))
      return reply
    },
  )
}

const cancelJobRoute: Routes = (app, { jobs }) => {
  app.post(
    '/v1/jobs/:id/cancel',
    {
      config: { scope: 'run', errors: ['not_found', 'no_space'] },
      schema: {
        operationId: 'cancelJob',
        summary: 'Cancel a job',
        description:
          'Tasks that wait never start; the sandboxes of those that run are deleted. Results so far are kept. Calling it again, or after the end, is fine.',
        tags,
        params: jobParams,
        body: emptyBody,
        response: { 200: json('The job. Its state is `cancelled` when its sandboxes are gone.', jobSchema) },
      },
    },
    async (request) => jobs.cancel(request.params.id, request.key),
  )
}

const deleteJobRoute: Routes = (app, { jobs }) => {
  app.delete(
    '/v1/jobs/:id',
    {
      config: { scope: 'run', errors: ['not_found', 'in_use'] },
      schema: {
        operationId: 'deleteJob',
        summary: 'Delete a job that has ended, with its results',
        tags,
        params: jobParams,
        response: { 204: nothing('The job was deleted.') },
      },
    },
    async (request, reply) => {
      await jobs.delete(request.params.id, request.key)
      return reply.code(204).send()
    },
  )
}
