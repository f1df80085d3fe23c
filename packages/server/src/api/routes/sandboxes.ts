import type { SnapshotId } from '@dormouse/contracts'
import {
  createSandboxSchema,
  DEFAULT_TEMPLATE,
  listSandboxesQuery,
  type SandboxAnswer,
  sandboxPageSchema,
  sandboxSchema,
  updateSandboxSchema,
} from '@dormouse/contracts/http'
import type { Caller } from '../../access/caller.ts'
import { NameTakenElsewhere } from '../../sandbox/sandbox-errors.ts'
import type { SandboxCalls } from '../../sandbox/sandbox-service.ts'
import { HOP_HEADER, OWNER_HEADER } from '../cluster/host-connections.ts'
import { disconnected } from '../event-stream.ts'
import { json, nothing, type Routes, sandboxParams } from '../route.ts'

const tags = ['sandboxes']

export const sandboxRoutes: Routes = (app, services) => {
  createSandboxRoute(app, services)
  listSandboxesRoute(app, services)
  getSandboxRoute(app, services)
  updateSandboxRoute(app, services)
  deleteSandboxRoute(app, services)
}

const createSandboxRoute: Routes = (app, services) => {
  const { sandboxes, policyDefaults, defaultLimits, elsewhere, placement } = services
  app.post(
    '/v1/sandboxes',
    {
      config: {
        scope: 'run',
        errors: [
          ...(['template_not_found', 'conflict', 'name_taken', 'not_found', 'limit_reached'] as const),
          ...(['snapshot_unusable', 'restore_failed', 'overloaded', 'no_space'] as const),
        ],
      },
      schema: {
        operationId: 'createSandbox',
        summary: 'Create a sandbox',
        tags,
        body: createSandboxSchema.prefault({}),
        response: {
          201: json('The sandbox runs and is on disk.', sandboxSchema),
          200: json('`getOrCreate` found a sandbox of this name.', sandboxSchema),
        },
      },
    },
    async (request, reply) => {
      const isPassedOn = request.headers[HOP_HEADER] !== undefined
      const made = isPassedOn ? undefined : await placement?.create(request.body, request.key.keyId)
      if (made !== undefined) {
        reply.header(OWNER_HEADER, made.address)
        return reply.code(made.status as 201).send(made.body as SandboxAnswer)
      }
      const { name, expires, snapshot, template = DEFAULT_TEMPLATE, ...rest } = request.body
      const from = snapshot === undefined ? undefined : await findOrigin(sandboxes, snapshot, request.key)
      const limits = { ...defaultLimits(request.key), ...from?.limits, ...rest.limits }
      const wanted = {
        ...policyDefaults,
        ...rest,
        template,
        snapshotId: from?.snapshotId,
        limits,
        name,
        expires,
      }
      try {
        const { sandbox, isNew } = await sandboxes.create(wanted, request.key, disconnected(reply))
        return reply.code(isNew ? 201 : 200).send(sandbox.view())
      } catch (error) {
        const holder = error instanceof NameTakenElsewhere ? elsewhere?.find(error.holder) : undefined
        if (holder === undefined || rest.getOrCreate !== true) throw error
        return reply.code(200).send(holder)
      }
    },
  )
}

async function findOrigin(sandboxes: SandboxCalls, ref: string, caller: Caller) {
  const { id } = sandboxes.getSnapshot(ref, caller)
  return { snapshotId: id as SnapshotId, limits: await sandboxes.limitsOfSnapshot(id, caller) }
}

const listSandboxesRoute: Routes = (app, { sandboxes, elsewhere }) => {
  app.get(
    '/v1/sandboxes',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'listSandboxes',
        summary: 'List sandboxes',
        tags,
        querystring: listSandboxesQuery,
        response: { 200: json('A page of sandboxes.', sandboxPageSchema) },
      },
    },
    async ({ query, key }) => {
      const page = sandboxes.list(query, key)
      return elsewhere?.merge(page, query, key.isAdmin ? undefined : key.keyId) ?? page
    },
  )
}

const getSandboxRoute: Routes = (app, { sandboxes }) => {
  app.get(
    '/v1/sandboxes/:id',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'getSandbox',
        summary: 'Get a sandbox',
        description: 'Does not wake the sandbox.',
        tags,
        params: sandboxParams,
        response: { 200: json('The sandbox.', sandboxSchema) },
      },
    },
    async (request) => sandboxes.get(request.params.id, request.key).view(),
  )
}

const updateSandboxRoute: Routes = (app, { sandboxes }) => {
  app.patch(
    '/v1/sandboxes/:id',
    {
      config: {
        scope: 'run',
        errors: [
          'not_found',
          'name_taken',
          'conflict',
          'limit_reached',
          'permission_denied',
          'snapshot_refused',
        ],
      },
      schema: {
        operationId: 'updateSandbox',
        summary: 'Change the name, policy or limits of a sandbox',
        description:
          'Fields that are left out stay as they are. Does not wake the sandbox, unless it was paused at its memory limit and the limit is raised.',
        tags,
        params: sandboxParams,
        body: updateSandboxSchema,
        response: { 200: json('The sandbox.', sandboxSchema) },
      },
    },
    async (request) => {
      const { name, expires, ...rest } = request.body
      return await sandboxes.get(request.params.id, request.key).update({
        ...rest,
        ...(name === undefined ? {} : { name: name ?? undefined }),
        ...(expires === undefined ? {} : { expires: expires ?? undefined }),
      })
    },
  )
}

const deleteSandboxRoute: Routes = (app, { sandboxes }) => {
  app.delete(
    '/v1/sandboxes/:id',
    {
      config: { scope: 'run', errors: ['not_found'] },
      schema: {
        operationId: 'deleteSandbox',
        summary: 'Delete a sandbox',
        description:
          'Ends its processes and deletes its files and its head. Snapshots created through the API and volumes stay.',
        tags,
        params: sandboxParams,
        response: { 204: nothing('The sandbox was deleted.') },
      },
    },
    async (request, reply) => {
      await sandboxes.get(request.params.id, request.key).delete()
      return reply.code(204).send()
    },
  )
}
