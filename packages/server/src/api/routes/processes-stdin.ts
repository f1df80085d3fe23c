import { isProcessId } from '@dormouse/contracts'
import { stdinAnswerSchema, writeStdinQuery } from '@dormouse/contracts/http'
import { z } from 'zod'
import { disconnected } from '../event-stream.ts'
import { getProcess } from '../guest/follow-process.ts'
import { bodyPieces, discardBody, useRawBodies } from '../guest/request-body.ts'
import { writeStdin } from '../guest/write-stdin.ts'
import { json, type Routes } from '../route.ts'
import { GUEST_ERRORS } from './guest-errors.ts'
import { processParams } from './processes.ts'

/** Input of processes, as a stream of bytes. */
export const processStdinRoutes: Routes = (app, { sandboxes }) => {
  useRawBodies(app)

  app.post(
    '/v1/sandboxes/:id/processes/:processId/stdin',
    {
      config: { scope: 'run', errors: [...GUEST_ERRORS, 'conflict', 'request_timeout'] },
      schema: {
        operationId: 'writeStdin',
        summary: 'Write to the input of a process',
        description: 'Streams the body to the process as fast as the process reads.',
        tags: ['processes'],
        consumes: ['application/octet-stream'],
        params: processParams,
        querystring: writeStdinQuery,
        body: z.unknown().meta({ type: 'string', format: 'binary' }).optional(),
        response: { 200: json('The process has the whole body.', stdinAnswerSchema) },
      },
    },
    async (request, reply) => {
      const { id, processId: named } = request.params
      const sandbox = sandboxes.get(id, request.key)
      const signal = disconnected(reply)
      try {
        // A pid could name another process by the second piece.
        const processId = isProcessId(named) ? named : (await getProcess(sandbox, named, signal)).processId
        const target = { sandbox, processId, signal }
        return { bytes: await writeStdin(target, bodyPieces(request.body), request.query.close) }
      } catch (error) {
        await discardBody(request.body, reply)
        throw error
      }
    },
  )
}
