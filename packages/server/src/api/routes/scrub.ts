import { scrubSchema } from '@dormouse/contracts/http'
import { json, noBody, type Routes } from '../route.ts'

const tags = ['host']

export const scrubRoutes: Routes = (app, { scrub }) => {
  app.get(
    '/v1/scrub',
    {
      config: { scope: 'admin' },
      schema: {
        operationId: 'readScrub',
        summary: 'How far the scrub has come, and what it found',
        description:
          'The server reads all that is stored once per `scrub.periodDays`, in the background, and compares it with checksums. Damaged snapshots are not restored from.',
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
        summary: 'Read all that is stored now',
        description: 'Returns at once. A pass that is under way continues.',
        tags,
        body: noBody,
        response: { 200: json('Its state.', scrubSchema) },
      },
    },
    async () => scrub.start(),
  )
}
