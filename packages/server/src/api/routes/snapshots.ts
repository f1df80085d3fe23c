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
import { emptyBody, json, nothing, type Routes, sandboxParams } from '../route.ts'

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
        description: 'The sandbox keeps running.',
        tags,
        params: sandboxParams,
        body: createSnapshotSchema.prefault({}),
        response: { 201: json('The snapshot is on disk.', snapshotSchema) },
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
        summary: 'Roll a sandbox back to a snapshot',
        description:
          'Discards everything since then, unless another snapshot has it. The sandbox keeps its id and name. The snapshot is of this sandbox, of one of its forks, or of a sandbox that it was forked from, at any depth.',
        tags,
        params: sandboxParams,
        body: rollbackSchema,
        response: { 200: json('The sandbox runs from that state.', sandboxSchema) },
      },
    },
    async (request) => await sandboxes.get(request.params.id, request.key).rollback(request.body.snapshotId),
  )
}

const listSnapshotsRoute: Routes = (app, { sandboxes, elsewhere }) => {
  app.get(
    '/v1/snapshots',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'listSnapshots',
        summary: 'List snapshots',
        tags,
        querystring: listSnapshotsQuery,
        response: { 200: json('A page of snapshots.', snapshotPageSchema) },
      },
    },
    async (request) => {
      const { sandboxId, ...page } = request.query
      if (sandboxId === undefined) return sandboxes.listSnapshots(page, request.key)
      // Snapshots of others are not listed, so it does not matter whose sandbox it is.
      const { id } = elsewhere?.find(sandboxId) ?? sandboxes.get(sandboxId, request.key)
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
        summary: 'Get a snapshot',
        tags,
        params: snapshotParams,
        response: { 200: json('The snapshot.', snapshotSchema) },
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
        summary: 'Check that a snapshot is complete and can be restored here',
        description:
          'Reads all of its memory and checks all of its files, at the speed of the disk. Does not wake the sandbox. For a damaged snapshot the answer is that of a wake: `snapshot_unusable` with the reason.',
        tags,
        params: snapshotParams,
        body: emptyBody,
        response: { 200: json('The snapshot is as it was saved.', verifiedSnapshotSchema) },
      },
    },
    async (request) => {
      const id = await sandboxes.verifySnapshot(request.params.id, request.key)
      return { id, ok: true as const }
    },
  )
}

const deleteSnapshotRoute: Routes = (app, { sandboxes, jobs }) => {
  app.delete(
    '/v1/snapshots/:id',
    {
      config: { scope: 'run', errors: ['not_found', 'in_use'] },
      schema: {
        operationId: 'deleteSnapshot',
        summary: 'Delete a snapshot',
        description: 'Refused for the head of a sandbox, and while a job starts sandboxes from it.',
        tags,
        params: snapshotParams,
        response: { 204: nothing('The snapshot was deleted.') },
      },
    },
    async (request, reply) => {
      const { id } = sandboxes.getSnapshot(request.params.id, request.key)
      jobs.requireUnused(id)
      await sandboxes.deleteSnapshot(id, request.key)
      return reply.code(204).send()
    },
  )
}
