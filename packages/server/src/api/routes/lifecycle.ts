import {
  forkAnswerSchema,
  forkSchema,
  holdAnswerSchema,
  holdSchema,
  ledgerPageSchema,
  ledgerQuery,
  promoteSchema,
  sandboxMetricsQuery,
  sandboxMetricsSchema,
  sandboxSchema,
  standbySchema,
  whySchema,
} from '@dormouse/contracts/http'
import { disconnected } from '../event-stream.ts'
import { emptyBody, json, type Routes, sandboxParams } from '../route.ts'

const tags = ['lifecycle']

/** Standby, wake, fork, hold, and the reasons for a sandbox's state. */
export const lifecycleRoutes: Routes = (app, services) => {
  standbyRoute(app, services)
  resumeRoute(app, services)
  forkRoute(app, services)
  promoteRoute(app, services)
  holdRoute(app, services)
  whyRoute(app, services)
  readLedgerRoute(app, services)
  readSandboxMetricsRoute(app, services)
}

const standbyRoute: Routes = (app, { sandboxes, nodes }) => {
  app.post(
    '/v1/sandboxes/:id/standby',
    {
      config: {
        scope: 'run',
        errors: [
          ...(['not_found', 'conflict', 'snapshot_refused', 'no_space', 'overloaded'] as const),
          'cluster_unavailable',
        ],
      },
      schema: {
        operationId: 'standby',
        summary: 'Put a sandbox to sleep',
        description: 'Returns when the tier is reached. Calling it again is fine.',
        tags,
        params: sandboxParams,
        body: standbySchema.prefault({}),
        response: { 200: json('The sandbox sleeps and is on disk.', sandboxSchema) },
      },
    },
    async (request) => {
      const { tier, durability } = request.body
      const sandbox = sandboxes.get(request.params.id, request.key)
      const view = await sandbox.standby({ tier, cause: 'asked' })
      if (durability === 'host') return view
      await nodes.replicate(sandbox.id)
      return sandbox.view()
    },
  )
}

const resumeRoute: Routes = (app, { sandboxes }) => {
  app.post(
    '/v1/sandboxes/:id/resume',
    {
      config: {
        scope: 'run',
        errors: [
          'not_found',
          'conflict',
          'limit_reached',
          'memory_limit',
          'snapshot_unusable',
          'restore_failed',
          'overloaded',
        ],
      },
      schema: {
        operationId: 'resume',
        summary: 'Wake a sandbox',
        description: 'Calls that need the sandbox awake do this by themselves. Calling it again is fine.',
        tags,
        params: sandboxParams,
        body: emptyBody,
        response: { 200: json('The sandbox is awake.', sandboxSchema) },
      },
    },
    async (request) => await sandboxes.get(request.params.id, request.key).resume('resume'),
  )
}

const forkRoute: Routes = (app, { sandboxes }) => {
  app.post(
    '/v1/sandboxes/:id/fork',
    {
      config: {
        scope: 'run',
        errors: ['not_found', 'conflict', 'limit_reached', 'snapshot_refused', 'overloaded', 'no_space'],
      },
      schema: {
        operationId: 'fork',
        summary: 'Fork a sandbox',
        description:
          'The children share the memory and the files of the parent until they write to them. The parent answers as soon as it is saved. Each child answers as soon as it is restored: until the call returns, listings and events show it as `creating`, then `running`. If one child cannot be restored, all are deleted.',
        tags,
        params: sandboxParams,
        body: forkSchema.prefault({}),
        response: { 201: json('All children run.', forkAnswerSchema) },
      },
    },
    async (request, reply) => {
      const { count, reseed } = request.body
      const sandbox = sandboxes.get(request.params.id, request.key)
      const children = await sandbox.fork({ count, reseed, signal: disconnected(reply) })
      return reply.code(201).send({ children })
    },
  )
}

const promoteRoute: Routes = (app, { sandboxes }) => {
  app.post(
    '/v1/sandboxes/:id/promote',
    {
      config: {
        scope: 'run',
        errors: [
          ...(['not_found', 'conflict', 'limit_reached', 'snapshot_refused'] as const),
          ...(['snapshot_unusable', 'restore_failed', 'overloaded', 'no_space'] as const),
        ],
      },
      schema: {
        operationId: 'promote',
        summary: 'Let the parent of a fork continue as the fork',
        description:
          'The parent rolls back to a fresh snapshot of this sandbox, and keeps its own id, name and settings. What the parent did since the fork is discarded, unless a snapshot has it. This sandbox is deleted, unless `keep` is true.',
        tags,
        params: sandboxParams,
        body: promoteSchema.prefault({}),
        response: { 200: json('The parent, with the state of the child.', sandboxSchema) },
      },
    },
    async (request) => await sandboxes.get(request.params.id, request.key).promote(request.body),
  )
}

const holdRoute: Routes = (app, { sandboxes }) => {
  app.post(
    '/v1/sandboxes/:id/hold',
    {
      config: { scope: 'run', errors: ['not_found', 'conflict'] },
      schema: {
        operationId: 'hold',
        summary: 'Keep a sandbox awake for a while',
        description: 'For work that the server cannot see. Does not wake the sandbox.',
        tags,
        params: sandboxParams,
        body: holdSchema,
        response: { 200: json('The sandbox does not go to sleep by itself until then.', holdAnswerSchema) },
      },
    },
    async (request) => {
      const { what, forMs } = request.body
      const until = new Date(Date.now() + forMs).toISOString()
      sandboxes.get(request.params.id, request.key).hold(what, forMs)
      return { what, until }
    },
  )
}

const whyRoute: Routes = (app, { sandboxes }) => {
  app.get(
    '/v1/sandboxes/:id/why',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'why',
        summary: 'Get what keeps a sandbox awake, and when it will sleep',
        tags,
        params: sandboxParams,
        response: { 200: json('In words and in data.', whySchema) },
      },
    },
    async (request) => await sandboxes.get(request.params.id, request.key).why(),
  )
}

const readLedgerRoute: Routes = (app, { sandboxes }) => {
  app.get(
    '/v1/sandboxes/:id/ledger',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'readLedger',
        summary: 'List every sleep and wake, with cause, latency and bytes',
        tags,
        params: sandboxParams,
        querystring: ledgerQuery,
        response: { 200: json('Oldest first.', ledgerPageSchema) },
      },
    },
    async (request) => {
      const { after, cursor, limit } = request.query
      const from = cursor ?? after
      return sandboxes
        .get(request.params.id, request.key)
        .ledger({ limit, ...(from === undefined ? {} : { after: from }) })
    },
  )
}

const readSandboxMetricsRoute: Routes = (app, { sandboxes }) => {
  app.get(
    '/v1/sandboxes/:id/metrics',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'readSandboxMetrics',
        summary: 'Get what a sandbox uses now',
        description: 'Does not wake the sandbox.',
        tags,
        params: sandboxParams,
        querystring: sandboxMetricsQuery,
        response: { 200: json('Numbers of its burrow.', sandboxMetricsSchema) },
      },
    },
    (request) => sandboxes.get(request.params.id, request.key).metrics({ withMemory: request.query.memory }),
  )
}
