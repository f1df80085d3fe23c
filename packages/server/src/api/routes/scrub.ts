import { scrubSchema } from '@dormouse/contracts/http'
import { emptyBody, json, type Routes } from '../route.ts'

const tags = ['host']

export const scrubRoutes: Routes = (app, { scrub }) => {
  app.get(
    '/v1/scrub',
    {
      config: { scope: 'admin' },
      schema: {
        operationId: 'readScrub',
        summary: 'Get the progress and findings of the scrub',
        description:
          'The server reads everything stored once per `scrub.periodDays`, in the background, and compares it with checksums. It never restores a damaged snapshot.',
        tags,
        response: { 200: json('Its state.', scrubSchema) },
      },
    },
    async () => scrub.view(),
  )

  app.post(
    '/v1/scrub',
    {
      config: { scope: 'admin' },
      schema: {
        operationId: 'startScrub',
        summary: 'Start a scrub now',
        description: 'Returns at once. A running pass continues.',
        tags,
        body: emptyBody,
        response: { 200: json('Its state.', scrubSchema) },
      },
    },
    async () => scrub.start(),
  )
}
