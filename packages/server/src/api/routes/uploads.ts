import { uploadSchema } from '@dormouse/contracts/http'
import { z } from 'zod'
import { bodyPieces, discardBody, useRawBodies } from '../guest/request-body.ts'
import { json, type Routes } from '../route.ts'

/** Files for builds of templates. */
export const uploadRoutes: Routes = (app, { uploads }) => {
  useRawBodies(app)

  app.post(
    '/v1/uploads',
    {
      config: { scope: 'run', errors: ['too_large', 'request_timeout', 'no_space'] },
      schema: {
        operationId: 'createUpload',
        summary: 'Upload an archive for a template',
        description:
          'A tar archive, plain or compressed with gzip: the context of a build, or an image (`docker save`, OCI). Kept for a day.',
        tags: ['templates'],
        consumes: ['application/octet-stream'],
        body: z.unknown().meta({ type: 'string', format: 'binary' }).optional(),
        response: { 201: json('The upload is complete.', uploadSchema) },
      },
    },
    async (request, reply) => {
      try {
        return reply.code(201).send(await uploads.put(bodyPieces(request.body), request.key))
      } catch (error) {
        await discardBody(request.body, reply)
        throw error
      }
    },
  )
}
