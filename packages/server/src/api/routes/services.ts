import type { IncomingMessage } from 'node:http'
import {
  deployServiceSchema,
  listServicesQuery,
  nameField,
  rollbackServiceSchema,
  type ServiceAnswer,
  servicePageSchema,
  serviceParams,
  serviceSchema,
  updateServiceSchema,
} from '@dormouse/contracts/http'
import { z } from 'zod'
import type { ServiceView } from '../../deployments/deployments.ts'
import { serviceUrl } from '../../ports/preview-address.ts'
import { publicOrigin } from '../preview/forwarded-headers.ts'
import { json, nothing, type Routes } from '../route.ts'
import type { Services } from '../services.ts'

const tags = ['services']

/** Routes about services. Requests to a service, at `/v1/services/{id}/http/`, are served by `preview/`. */
export const serviceRoutes: Routes = (app, services) => {
  deployServiceRoute(app, services)
  listServicesRoute(app, services)
  getServiceRoute(app, services)
  updateServiceRoute(app, services)
  rollbackServiceRoute(app, services)
  deleteServiceRoute(app, services)
}

const deployServiceRoute: Routes = (app, { deployments, ports }) => {
  app.put(
    '/v1/services/:service',
    {
      config: {
        scope: 'run',
        errors: [
          ...(['conflict', 'name_taken', 'limit_reached', 'template_not_found'] as const),
          ...(['not_found', 'overloaded', 'no_space'] as const),
          ...(['isolation_unavailable', 'isolation_unsupported'] as const),
        ],
      },
      schema: {
        operationId: 'deployService',
        summary: 'Deploy a version of a service',
        description:
          'Builds what the request describes, starts the program, waits until it is ready and saves that state: the new version. Requests go to it from then on, and settings that the request names, such as `replicas` and `health`, are in force; others stay as they are. If anything fails, the version before keeps serving as it did. A service that does not exist is made.',
        tags,
        params: z.strictObject({ service: nameField }),
        body: deployServiceSchema,
        response: {
          202: json(
            'The deployment has begun. Get the service until the version is `ready` or `failed`.',
            serviceSchema,
          ),
        },
      },
    },
    async (request, reply) => {
      const deployed = await deployments.deploy(request.params.service, request.body, request.key)
      return reply.code(202).send(withAddress(deployed, request.raw, ports))
    },
  )
}

const listServicesRoute: Routes = (app, { deployments, ports }) => {
  app.get(
    '/v1/services',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'listServices',
        summary: 'List services',
        tags,
        querystring: listServicesQuery,
        response: { 200: json('A page of services.', servicePageSchema) },
      },
    },
    async (request) => {
      const { items, nextCursor } = deployments.list(request.query, request.key)
      return { items: items.map((view) => withAddress(view, request.raw, ports)), nextCursor }
    },
  )
}

const getServiceRoute: Routes = (app, { deployments, ports }) => {
  app.get(
    '/v1/services/:service',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'getService',
        summary: 'Get a service with its versions and replicas',
        description: 'Wakes nothing.',
        tags,
        params: serviceParams,
        response: { 200: json('The service.', serviceSchema) },
      },
    },
    async (request) => withAddress(deployments.get(request.params.service, request.key), request.raw, ports),
  )
}

const updateServiceRoute: Routes = (app, { deployments, ports }) => {
  app.patch(
    '/v1/services/:service',
    {
      config: { scope: 'run', errors: ['not_found'] },
      schema: {
        operationId: 'updateService',
        summary: 'Change how a service is reached, scaled, checked and restarted',
        description: 'Fields that are left out stay as they are. Makes no new version.',
        tags,
        params: serviceParams,
        body: updateServiceSchema,
        response: { 200: json('The service.', serviceSchema) },
      },
    },
    async (request) => {
      const { params, body, key, raw } = request
      return withAddress(deployments.update(params.service, body, key), raw, ports)
    },
  )
}

const rollbackServiceRoute: Routes = (app, { deployments, ports }) => {
  app.post(
    '/v1/services/:service/rollback',
    {
      config: {
        scope: 'run',
        errors: ['not_found', 'conflict', 'service_unavailable', 'limit_reached', 'overloaded', 'no_space'],
      },
      schema: {
        operationId: 'rollbackService',
        summary: 'Send requests to another version',
        description: 'Returns when that version answers. It starts from the state in which it was ready.',
        tags,
        params: serviceParams,
        body: rollbackServiceSchema,
        response: { 200: json('The service.', serviceSchema) },
      },
    },
    async (request) => {
      const { params, body, key, raw } = request
      return withAddress(await deployments.rollback(params.service, body.version, key), raw, ports)
    },
  )
}

const deleteServiceRoute: Routes = (app, { deployments }) => {
  app.delete(
    '/v1/services/:service',
    {
      config: { scope: 'run', errors: ['not_found'] },
      schema: {
        operationId: 'deleteService',
        summary: 'Delete a service with its versions, replicas and logs',
        description: 'Volumes and secrets stay.',
        tags,
        params: serviceParams,
        response: { 204: nothing('The service was deleted.') },
      },
    },
    async (request, reply) => {
      await deployments.delete(request.params.service, request.key)
      return reply.code(204).send()
    },
  )
}

function withAddress(view: ServiceView, request: IncomingMessage, ports: Services['ports']): ServiceAnswer {
  const origin = publicOrigin(request)
  const serviceId = view.id
  return {
    ...view,
    url: serviceUrl(origin, { serviceId, domain: ports.domain }),
    pathUrl: serviceUrl(origin, { serviceId, domain: undefined }),
  }
}
