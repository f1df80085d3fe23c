import {
  cordonSchema,
  drainedSchema,
  movedSchema,
  moveSchema,
  nodeIdField,
  nodeSchema,
  nodesSchema,
} from '@dormouse/contracts/http'
import { z } from 'zod'
import { emptyBody, json, type Routes, sandboxParams } from '../route.ts'

const tags = ['nodes']
const params = z.strictObject({ node: nodeIdField })

export const nodeRoutes: Routes = (app, services) => {
  listNodesRoute(app, services)
  cordonNodeRoute(app, services)
  drainNodeRoute(app, services)
  moveSandboxRoute(app, services)
}

const listNodesRoute: Routes = (app, { nodes }) => {
  app.get(
    '/v1/nodes',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'listNodes',
        summary: 'List the hosts of the cluster',
        description: 'A server outside a cluster is its only node.',
        tags,
        response: { 200: json('The nodes, as this one sees them.', nodesSchema) },
      },
    },
    async () => ({ items: nodes.list() }),
  )
}

const cordonNodeRoute: Routes = (app, { nodes }) => {
  app.post(
    '/v1/nodes/:node/cordon',
    {
      config: {
        scope: 'admin',
        errors: ['not_found', 'conflict', 'host_unavailable', 'cluster_unavailable'],
      },
      schema: {
        operationId: 'cordonNode',
        summary: 'Give a node no new sandboxes, or give it some again',
        tags,
        params,
        body: cordonSchema.prefault({}),
        response: { 200: json('The node.', nodeSchema) },
      },
    },
    async ({ params: { node }, body }) => await nodes.cordon(node, body.cordoned),
  )
}

const drainNodeRoute: Routes = (app, { nodes }) => {
  app.post(
    '/v1/nodes/:node/drain',
    {
      config: {
        scope: 'admin',
        errors: ['not_found', 'conflict', 'host_unavailable', 'cluster_unavailable'],
      },
      schema: {
        operationId: 'drainNode',
        summary: 'Move all sandboxes of a node to others',
        description: 'Cordons the node first. Sandboxes that cannot be moved stay, with the reason.',
        tags,
        params,
        body: emptyBody,
        response: { 200: json('What was moved, and what was not.', drainedSchema) },
      },
    },
    async ({ params: { node } }) => await nodes.drain(node),
  )
}

const moveSandboxRoute: Routes = (app, { nodes, sandboxes }) => {
  app.post(
    '/v1/sandboxes/:id/move',
    {
      config: {
        scope: 'run',
        errors: [
          ...(['not_found', 'conflict', 'snapshot_refused', 'no_space'] as const),
          ...(['host_unavailable', 'cluster_unavailable'] as const),
        ],
      },
      schema: {
        operationId: 'moveSandbox',
        summary: 'Move a sandbox to another node',
        description: 'Puts it to sleep. It wakes on the other node with the next call.',
        tags,
        params: sandboxParams,
        body: moveSchema,
        response: { 200: json('Where it is now.', movedSchema) },
      },
    },
    async ({ params: { id }, body, key }) => await nodes.move(sandboxes.get(id, key).id, body.node),
  )
}
