import type { SnapshotId } from '@dormouse/contracts'
import {
  createSnapshotSchema,
  listSnapshotsQuery,
  rollbackSchema,
  sandboxSchema,
  snapshotPageSchema,
  snapshotParams,
  snapshotSchema,
  verifiedSnapshotSchema,
} from '@dormouse/contracts/http'
import { json, noBody, nothing, type Routes, sandboxParams } from '../route.ts'

const tags = ['snapshots']

export const snapshotRoutes: Routes = (app, services) => {
  createSnapshotRoute(app, services)
  rollbackRoute(app, services)
  listSnapshotsRoute(app, services)
  getSnapshotRoute(app, services)
  verifySnapshotRoute(app, services)
  deleteSnapshotRoute(app, services)
}

const createSnapshotRoute: Routes = (app, { sandboxes }) => {
  app.post(
    '/v1/sandboxes/:id/snapshots',
    {
      config: {
        scope: 'run',
        errors: [
          'not_found',
          'name_taken',
          'conflict',
          'limit_reached',
          'snapshot_refused',
          'overloaded',
          'no_space',
        ],
      },
      schema: {
        operationId: 'createSnapshot',
        summary: 'Save the state of a sandbox',
        description: 'The sandbox goes on.',
        tags,
        params: sandboxParams,
        body: createSnapshotSchema.prefault({}),
        response: { 201: json('It is on disk.', snapshotSchema) },
      },
    },
    async (request, reply) => {
      const { name, kind } = request.body
      const snapshot = await sandboxes.get(request.params.id, request.key).snapshot({ name, kind })
      return reply.code(201).send(snapshot)
    },
  )
}

const rollbackRoute: Routes = (app, { sandboxes }) => {
  app.post(
    '/v1/sandboxes/:id/rollback',
    {
      config: {
        scope: 'run',
        errors: [
          'not_found',
          'conflict',
          'limit_reached',
          'snapshot_unusable',
          'restore_failed',
          'overloaded',
        ],
      },
      schema: {
        operationId: 'rollback',
        summary: 'Take a sandbox back to one of its snapshots',
        description: 'What happened since is gone, unless another snapshot has it. Its id stays the same.',
        tags,
        params: sandboxParams,
        body: rollbackSchema,
        response: { 200: json('It runs from that state.', sandboxSchema) },
      },
    },
    async (request) =>
      await sandboxes.get(request.params.id, request.key).rollback(request.body.snapshotId as SnapshotId),
  )
}

const listSnapshotsRoute: Routes = (app, { sandboxes }) => {
  app.get(
    '/v1/snapshots',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'listSnapshots',
        summary: 'List snapshots',
        tags,
        querystring: listSnapshotsQuery,
        response: { 200: json('A page of them.', snapshotPageSchema) },
      },
    },
    async (request) => {
      const { sandboxId, ...page } = request.query
      if (sandboxId === undefined) return sandboxes.listSnapshots(page, request.key)
      const { id } = sandboxes.get(sandboxId, request.key)
      return sandboxes.listSnapshots({ ...page, sandboxId: id }, request.key)
    },
  )
}

const getSnapshotRoute: Routes = (app, { sandboxes }) => {
  app.get(
    '/v1/snapshots/:id',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'getSnapshot',
        summary: 'Look at a snapshot',
        tags,
        params: snapshotParams,
        response: { 200: json('It.', snapshotSchema) },
      },
    },
    async (request) => sandboxes.getSnapshot(request.params.id, request.key),
  )
}

const verifySnapshotRoute: Routes = (app, { sandboxes }) => {
  app.post(
    '/v1/snapshots/:id/verify',
    {
      config: { scope: 'run', errors: ['not_found', 'snapshot_unusable', 'overloaded'] },
      schema: {
        operationId: 'verifySnapshot',
        summary: 'Check that a snapshot is whole and can be restored here',
        description:
          'Reads all of its memory and looks at all of its files, which takes as long as the disk needs. Wakes nothing. One that is damaged is answered as a wake from it would be, with `snapshot_unusable` and the reason.',
        tags,
        params: snapshotParams,
        body: noBody,
        response: { 200: json('All of it is as it was saved.', verifiedSnapshotSchema) },
      },
    },
    async (request) => {
      await sandboxes.verifySnapshot(request.params.id, request.key)
      return { id: request.params.id, ok: true as const }
    },
  )
}

const deleteSnapshotRoute: Routes = (app, { sandboxes }) => {
  app.delete(
    '/v1/snapshots/:id',
    {
      config: { scope: 'run', errors: ['not_found', 'in_use'] },
      schema: {
        operationId: 'deleteSnapshot',
        summary: 'Delete a snapshot',
        description: 'Refused for the one that a sandbox would come back with.',
        tags,
        params: snapshotParams,
        response: { 204: nothing('It is gone.') },
      },
    },
    async (request, reply) => {
      await sandboxes.deleteSnapshot(request.params.id, request.key)
      return reply.code(204).send()
    },
  )
}
