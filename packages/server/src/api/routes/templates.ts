import {
  createTemplateSchema,
  listTemplatesQuery,
  templateMaterialsSchema,
  templatePageSchema,
  templateParams,
  templateSchema,
} from '@dormouse/contracts/http'
import { isRecipe } from '../../templates/recipe/recipe-request.ts'
import { json, nothing, type Routes } from '../route.ts'

const tags = ['templates']

export const templateRoutes: Routes = (app, services) => {
  createTemplateRoute(app, services)
  listTemplatesRoute(app, services)
  getTemplateRoute(app, services)
  getTemplateMaterialsRoute(app, services)
  deleteTemplateRoute(app, services)
}

const createTemplateRoute: Routes = (app, { templates, sandboxes }) => {
  app.post(
    '/v1/templates',
    {
      config: {
        scope: 'run',
        errors: [
          ...([
            'not_found',
            'template_not_found',
            'name_taken',
            'limit_reached',
            'overloaded',
            'no_space',
          ] as const),
          'isolation_unavailable',
        ],
      },
      schema: {
        operationId: 'createTemplate',
        summary: 'Create a template from an image, a Dockerfile, a description or a snapshot',
        description:
          "A description is built in a sandbox of the calling key, with the server's limits for builds. The build counts towards the quotas of the key until it has ended. The template belongs to the key.",
        tags,
        body: createTemplateSchema,
        response: {
          201: json('The template was created from the snapshot.', templateSchema),
          202: json(
            'The build has started. Get the template until it is `ready` or `failed`.',
            templateSchema,
          ),
        },
      },
    },
    async (request, reply) => {
      const { name, description, snapshotId, from, network, isolation, ...rest } = request.body
      const { packages, pip, commands, preload, ...recipe } = rest
      if (snapshotId !== undefined) {
        const { id } = sandboxes.getSnapshot(snapshotId, request.key)
        await sandboxes.bringSnapshot(id)
        const made = await templates.fromSnapshot({ name, description, snapshotId: id }, request.key)
        return reply.code(201).send(made)
      }
      if (isolation !== undefined) sandboxes.requireIsolation(isolation, { volumes: [] })
      const begun = await templates.build(
        {
          ...{ name, description, from, network, isolation },
          packages: packages ?? [],
          pip: pip ?? [],
          commands: commands ?? [],
          preload: preload ?? [],
          ...(isRecipe(recipe) && { recipe }),
        },
        request.key,
      )
      return reply.code(202).send(begun)
    },
  )
}

const listTemplatesRoute: Routes = (app, { templates }) => {
  app.get(
    '/v1/templates',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'listTemplates',
        summary: 'List templates',
        tags,
        querystring: listTemplatesQuery,
        response: { 200: json('A page of templates.', templatePageSchema) },
      },
    },
    async (request) => templates.list(request.query, request.key),
  )
}

const getTemplateRoute: Routes = (app, { templates }) => {
  app.get(
    '/v1/templates/:name',
    {
      config: { scope: 'read', errors: ['template_not_found'] },
      schema: {
        operationId: 'getTemplate',
        summary: 'Get a template and the state of its build',
        tags,
        params: templateParams,
        response: { 200: json('The template.', templateSchema) },
      },
    },
    async (request) => templates.get(request.params.name, request.key),
  )
}

const getTemplateMaterialsRoute: Routes = (app, { templates }) => {
  app.get(
    '/v1/templates/:name/materials',
    {
      config: { scope: 'read', errors: ['template_not_found', 'not_found'] },
      schema: {
        operationId: 'getTemplateMaterials',
        summary: 'List the packages that a template was built from, with their digests',
        description: 'For a template that a key built, this is what its build reports.',
        tags,
        params: templateParams,
        response: { 200: json('The packages.', templateMaterialsSchema) },
      },
    },
    async (request) => templates.materials(request.params.name, request.key),
  )
}

const deleteTemplateRoute: Routes = (app, { templates }) => {
  app.delete(
    '/v1/templates/:name',
    {
      config: { scope: 'run', errors: ['template_not_found', 'in_use'] },
      schema: {
        operationId: 'deleteTemplate',
        summary: 'Delete a template',
        description: 'Refused while a sandbox needs its files. Stops a running build.',
        tags,
        params: templateParams,
        response: { 204: nothing('The template was deleted.') },
      },
    },
    async (request, reply) => {
      await templates.delete(request.params.name, request.key)
      return reply.code(204).send()
    },
  )
}
