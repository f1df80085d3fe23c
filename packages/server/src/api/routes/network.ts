import { networkReportSchema } from '@dormouse/contracts/http'
import { json, type Routes, sandboxParams } from '../route.ts'

export const networkRoutes: Routes = (app, { sandboxes }) => {
  app.get(
    '/v1/sandboxes/:id/network',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'readNetwork',
        summary: 'What a sandbox may reach, what it did, and what was refused',
        description: 'Does not wake it. `PATCH /v1/sandboxes/{id}` changes what it may reach.',
        tags: ['sandboxes'],
        params: sandboxParams,
        response: { 200: json('As it is now.', networkReportSchema) },
      },
    },
    async (request) => sandboxes.get(request.params.id, request.key).network(),
  )
}
