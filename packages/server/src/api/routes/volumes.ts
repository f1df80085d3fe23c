import {
  cloneVolumeSchema,
  createVolumeSchema,
  listVolumesQuery,
  shareVolumeSchema,
  updateVolumeSchema,
  volumePageSchema,
  volumeParams,
  volumeSchema,
  volumeShareParams,
} from '@dormouse/contracts/http'
import { disconnected } from '../event-stream.ts'
import { json, nothing, type Routes } from '../route.ts'

const tags = ['volumes']

export const volumeRoutes: Routes = (app, services) => {
  createVolumeRoute(app, services)
  listVolumesRoute(app, services)
  getVolumeRoute(app, services)
  updateVolumeRoute(app, services)
  deleteVolumeRoute(app, services)
  cloneVolumeRoute(app, services)
  shareVolumeRoute(app, services)
  unshareVolumeRoute(app, services)
}

const createVolumeRoute: Routes = (app, { volumes }) => {
  app.post(
    '/v1/volumes',
    {
      config: { scope: 'run', errors: ['name_taken', 'limit_reached', 'no_space'] },
      schema: {
        operationId: 'createVolume',
        summary: 'Create a volume',
        tags,
        body: createVolumeSchema,
        response: { 201: json('The new, empty volume.', volumeSchema) },
      },
    },
    async (request, reply) => reply.code(201).send(await volumes.create(request.body, request.key)),
  )
}

const listVolumesRoute: Routes = (app, { volumes }) => {
  app.get(
    '/v1/volumes',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'listVolumes',
        summary: 'List volumes',
        tags,
        querystring: listVolumesQuery,
        response: { 200: json('A page of volumes.', volumePageSchema) },
      },
    },
    async (request) => volumes.list(request.query, request.key),
  )
}

const getVolumeRoute: Routes = (app, { volumes }) => {
  app.get(
    '/v1/volumes/:name',
    {
      config: { scope: 'read', errors: ['not_found', 'conflict'] },
      schema: {
        operationId: 'getVolume',
        summary: 'Get a volume',
        tags,
        params: volumeParams,
        response: { 200: json('The volume.', volumeSchema) },
      },
    },
    async (request) => await volumes.get(request.params.name, request.key),
  )
}

const updateVolumeRoute: Routes = (app, { volumes }) => {
  app.patch(
    '/v1/volumes/:name',
    {
      config: {
        scope: 'run',
        errors: ['not_found', 'conflict', 'permission_denied', 'limit_reached', 'no_space'],
      },
      schema: {
        operationId: 'updateVolume',
        summary: 'Change the size limit of a volume',
        tags,
        params: volumeParams,
        body: updateVolumeSchema,
        response: { 200: json('The volume.', volumeSchema) },
      },
    },
    async (request) => volumes.update(request.params.name, request.body, request.key),
  )
}

const deleteVolumeRoute: Routes = (app, { volumes }) => {
  app.delete(
    '/v1/volumes/:name',
    {
      config: { scope: 'run', errors: ['not_found', 'conflict', 'permission_denied', 'in_use'] },
      schema: {
        operationId: 'deleteVolume',
        summary: 'Delete a volume and its contents',
        description: 'Refused while a sandbox mounts it.',
        tags,
        params: volumeParams,
        response: { 204: nothing('The volume was deleted.') },
      },
    },
    async (request, reply) => {
      await volumes.delete(request.params.name, request.key)
      return reply.code(204).send()
    },
  )
}

const cloneVolumeRoute: Routes = (app, { volumes }) => {
  app.post(
    '/v1/volumes/:name/clone',
    {
      config: {
        scope: 'run',
        errors: ['not_found', 'conflict', 'name_taken', 'limit_reached', 'no_space', 'too_large'],
      },
      schema: {
        operationId: 'cloneVolume',
        summary: 'Make a volume with the content of another one',
        description:
          'Shares blocks where the file system can, and copies otherwise. Sandboxes may write meanwhile: each file is copied as it is at its moment. A client that leaves ends the copy, and there is no new volume.',
        tags,
        params: volumeParams,
        body: cloneVolumeSchema,
        response: { 201: json('The new volume.', volumeSchema) },
      },
    },
    async (request, reply) => {
      const signal = disconnected(reply)
      const made = await volumes.clone(request.params.name, request.body, request.key, signal)
      return reply.code(201).send(made)
    },
  )
}

const shareVolumeRoute: Routes = (app, { volumes }) => {
  app.put(
    '/v1/volumes/:name/shares/:key',
    {
      config: { scope: 'run', errors: ['not_found', 'conflict', 'permission_denied'] },
      schema: {
        operationId: 'shareVolume',
        summary: 'Share a volume with another key',
        description:
          'Its sandboxes mount the volume by the same name. From `write` to `read`: awake sandboxes of that key that mount it are put to standby, and do not wake before they mount it read-only.',
        tags,
        params: volumeShareParams,
        body: shareVolumeSchema,
        response: { 200: json('The volume.', volumeSchema) },
      },
    },
    async (request) => {
      const { name, key } = request.params
      return volumes.share(name, { key, access: request.body.access }, request.key)
    },
  )
}

const unshareVolumeRoute: Routes = (app, { volumes }) => {
  app.delete(
    '/v1/volumes/:name/shares/:key',
    {
      config: { scope: 'run', errors: ['not_found', 'conflict', 'permission_denied'] },
      schema: {
        operationId: 'unshareVolume',
        summary: 'Stop sharing a volume with a key',
        description:
          'Awake sandboxes of that key that mount it are put to standby, and do not wake before they detach it.',
        tags,
        params: volumeShareParams,
        response: { 204: nothing('It is not shared any more.') },
      },
    },
    async (request, reply) => {
      volumes.unshare(request.params.name, request.params.key, request.key)
      return reply.code(204).send()
    },
  )
}
