import { networkReportSchema } from '@dormouse/contracts/http'
import { json, type Routes, sandboxParams } from '../route.ts'

export const networkRoutes: Routes = (app, { sandboxes }) => {
  app.get(
    '/v1/sandboxes/:id/network',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'readNetwork',
        summary: 'Get the network policy, counters, denials and failed look-ups of a sandbox',
        description: 'Does not wake the sandbox. Change the policy with `PATCH /v1/sandboxes/{id}`.',
        tags: ['sandboxes'],
        params: sandboxParams,
        response: { 200: json('The current state.', networkReportSchema) },
      },
    },
    async (request) => sandboxes.get(request.params.id, request.key).network(),
  )
}
