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
        summary: 'Get the address for SSH clients',
        description:
          'The user name of a connection is the name or id of a sandbox, or a unique beginning of either.',
        tags,
        response: { 200: json('The address and the host key.', sshEndpointSchema) },
      },
    },
    async () => {
      const endpoint = ssh.endpoint()
      if (endpoint === undefined)
        throw new DormouseError('not_found', 'SSH is off on this server.', {
          hint: 'The output of the server at its start says why. The setting `ssh.enabled` turns it on.',
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
        summary: 'Add an SSH key',
        description:
          'Gives its holder access to the sandboxes of the API key that adds it, until either key is gone. The holder must first confirm the key by connecting once over SSH as `confirmAs`, so a public key cannot be added without its holder.',
        tags,
        body: addSshKeySchema,
        response: { 201: json('The key waits for its holder to confirm it.', sshKeySchema) },
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
        response: { 200: json('A page of SSH keys.', sshKeyPageSchema) },
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
        summary: 'Get an SSH key',
        tags,
        params: sshKeyParams,
        response: { 200: json('The SSH key.', sshKeySchema) },
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
        description: 'Ends its open connections at once.',
        tags,
        params: sshKeyParams,
        response: { 204: nothing('The SSH key was deleted.') },
      },
    },
    async (request, reply) => {
      ssh.deleteKey(request.params.name, request.key)
      return reply.code(204).send()
    },
  )
}
