import {
  createVolumeSchema,
  listVolumesQuery,
  updateVolumeSchema,
  volumePageSchema,
  volumeParams,
  volumeSchema,
} from '@dormouse/contracts/http'
import { json, nothing, type Routes } from '../route.ts'

const tags = ['volumes']

export const volumeRoutes: Routes = (app, services) => {
  createVolumeRoute(app, services)
  listVolumesRoute(app, services)
  getVolumeRoute(app, services)
  updateVolumeRoute(app, services)
  deleteVolumeRoute(app, services)
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
      config: { scope: 'read', errors: ['not_found'] },
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
      config: { scope: 'run', errors: ['not_found', 'limit_reached', 'no_space'] },
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
      config: { scope: 'run', errors: ['not_found', 'in_use'] },
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
