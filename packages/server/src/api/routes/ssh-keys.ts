import { DormouseError } from '@dormouse/contracts'
import {
  addSshKeySchema,
  listSshKeysQuery,
  sshEndpointSchema,
  sshKeyPageSchema,
  sshKeyParams,
  sshKeySchema,
} from '@dormouse/contracts/http'
import { json, nothing, type Routes } from '../route.ts'

const tags = ['ssh']

export const sshKeyRoutes: Routes = (app, services) => {
  getSshEndpointRoute(app, services)
  addSshKeyRoute(app, services)
  listSshKeysRoute(app, services)
  getSshKeyRoute(app, services)
  deleteSshKeyRoute(app, services)
}

const getSshEndpointRoute: Routes = (app, { ssh }) => {
  app.get(
    '/v1/ssh',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'getSshEndpoint',
        summary: 'Where SSH clients connect',
        description:
          'The user name of a connection is the name or the id of a sandbox, or the beginning of one.',
        tags,
        response: { 200: json('With the key by which the server proves who it is.', sshEndpointSchema) },
      },
    },
    async () => {
      const endpoint = ssh.endpoint()
      if (endpoint === undefined)
        throw new DormouseError('not_found', 'This server takes no SSH connections.', {
          hint: 'What it printed at its start says why; `ssh.enabled` turns it on.',
        })
      return endpoint
    },
  )
}

const addSshKeyRoute: Routes = (app, { ssh }) => {
  app.post(
    '/v1/ssh-keys',
    {
      config: { scope: 'run', errors: ['name_taken', 'already_exists', 'limit_reached'] },
      schema: {
        operationId: 'addSshKey',
        summary: 'Let the holder of an SSH key into your sandboxes',
        description:
          'It reaches what the API key reaches that adds it, until either is gone. It lets nobody in before its holder has confirmed it, by connecting once over SSH as `confirmAs`: so a public key cannot be added behind the back of its holder.',
        tags,
        body: addSshKeySchema,
        response: { 201: json('It waits for its holder.', sshKeySchema) },
      },
    },
    async (request, reply) => reply.code(201).send(ssh.addKey(request.body, request.key)),
  )
}

const listSshKeysRoute: Routes = (app, { ssh }) => {
  app.get(
    '/v1/ssh-keys',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'listSshKeys',
        summary: 'List SSH keys',
        tags,
        querystring: listSshKeysQuery,
        response: { 200: json('A page of them.', sshKeyPageSchema) },
      },
    },
    async (request) => ssh.listKeys(request.query, request.key),
  )
}

const getSshKeyRoute: Routes = (app, { ssh }) => {
  app.get(
    '/v1/ssh-keys/:name',
    {
      config: { scope: 'read', errors: ['not_found', 'conflict'] },
      schema: {
        operationId: 'getSshKey',
        summary: 'Look at an SSH key',
        tags,
        params: sshKeyParams,
        response: { 200: json('It.', sshKeySchema) },
      },
    },
    async (request) => ssh.getKey(request.params.name, request.key),
  )
}

const deleteSshKeyRoute: Routes = (app, { ssh }) => {
  app.delete(
    '/v1/ssh-keys/:name',
    {
      config: { scope: 'run', errors: ['not_found', 'conflict'] },
      schema: {
        operationId: 'deleteSshKey',
        summary: 'Delete an SSH key',
        description: 'Its open connections end at once.',
        tags,
        params: sshKeyParams,
        response: { 204: nothing('It is gone.') },
      },
    },
    async (request, reply) => {
      ssh.deleteKey(request.params.name, request.key)
      return reply.code(204).send()
    },
  )
}
