import { DormouseError } from '@dormouse/contracts'
import {
  fileQuery,
  fileStatSchema,
  readFileQuery,
  removeFileQuery,
  writeFileQuery,
} from '@dormouse/contracts/http'
import type { FileStat } from '@dormouse/engine'
import { z } from 'zod'
import { disconnected } from '../event-stream.ts'
import { setFileHeaders } from '../guest/file-view.ts'
import { filesOf } from '../guest/files-of.ts'
import { useRawBodies } from '../guest/request-body.ts'
import {
  FILE_RESPONSES,
  fileBytes,
  OCTETS,
  receiveFile,
  SEND_FILE_TEXT,
  sendFile,
} from '../guest/send-file.ts'
import { upload } from '../guest/upload.ts'
import { json, nothing, type Routes, sandboxParams } from '../route.ts'
import { requireUtf8Queries } from '../utf8-query.ts'
import { GUEST_ERRORS } from './guest-errors.ts'

const url = '/v1/sandboxes/:id/files'
const tags = ['files']

/** Contents of files: bytes of any length in both directions. */
export const fileContentRoutes: Routes = (app, services) => {
  useRawBodies(app)
  requireUtf8Queries(app)
  readFileRoute(app, services)
  headFileRoute(app, services)
  writeFileRoute(app, services)
  deleteFileRoute(app, services)
}

const readFileRoute: Routes = (app, { sandboxes }) => {
  app.get(
    url,
    {
      config: {
        scope: 'read',
        errors: [
          ...GUEST_ERRORS,
          'permission_denied',
          'not_a_file',
          'not_a_directory',
          'range_not_satisfiable',
        ],
      },
      schema: {
        operationId: 'readFile',
        summary: 'Read a file',
        description: SEND_FILE_TEXT,
        tags,
        params: sandboxParams,
        querystring: readFileQuery,
        response: FILE_RESPONSES,
      },
    },
    (request, reply) => {
      const sandbox = sandboxes.get(request.params.id, request.key)
      const { wake, ...file } = request.query
      return sendFile(request, reply, { access: filesOf(sandbox, wake), ...file })
    },
  )
}

const headFileRoute: Routes = (app, { sandboxes }) => {
  app.head(
    url,
    {
      config: {
        scope: 'read',
        errors: [...GUEST_ERRORS, 'permission_denied', 'not_a_file', 'not_a_directory'],
      },
      schema: {
        operationId: 'headFile',
        summary: 'The headers of a file',
        tags,
        params: sandboxParams,
        querystring: fileQuery,
        response: { 200: z.undefined().describe('Length, `ETag` and `Last-Modified`.') },
      },
    },
    async (request, reply) => {
      const sandbox = sandboxes.get(request.params.id, request.key)
      const { path, ...as } = request.query
      const signal = disconnected(reply)
      const stat = await sandbox.use({ cause: 'file', what: `looking at ${path}`, signal }, (guest) =>
        guest.files.stat(path, as),
      )
      requireFile(stat)
      setFileHeaders(reply, stat)
      return reply.header('content-length', stat.sizeBytes).send()
    },
  )
}

const writeFileRoute: Routes = (app, { sandboxes }) => {
  app.put(
    url,
    {
      config: {
        scope: 'run',
        errors: [
          ...GUEST_ERRORS,
          'permission_denied',
          'not_a_file',
          'not_a_directory',
          'request_timeout',
          'conflict',
          'no_space',
          'too_large',
        ],
      },
      schema: {
        operationId: 'writeFile',
        summary: 'Write a file',
        description:
          'The body is the content, of any length. Readers see the old file or the new one. An interrupted upload leaves the old one.',
        tags,
        consumes: [OCTETS],
        params: sandboxParams,
        querystring: writeFileQuery,
        body: fileBytes.optional(),
        response: { 200: json('The file was written.', fileStatSchema) },
      },
    },
    async (request, reply) => {
      const sandbox = sandboxes.get(request.params.id, request.key)
      const { path, ...options } = request.query
      return receiveFile(request, reply, (pieces, signal) =>
        upload(sandbox, pieces, { path, options, signal }),
      )
    },
  )
}

const deleteFileRoute: Routes = (app, { sandboxes }) => {
  app.delete(
    url,
    {
      config: {
        scope: 'run',
        errors: [...GUEST_ERRORS, 'permission_denied', 'not_a_directory', 'directory_not_empty', 'conflict'],
      },
      schema: {
        operationId: 'deleteFile',
        summary: 'Delete a file or directory',
        description: 'Deletes a symbolic link itself, never its target.',
        tags,
        params: sandboxParams,
        querystring: removeFileQuery,
        response: { 204: nothing('It was deleted.') },
      },
    },
    async (request, reply) => {
      const sandbox = sandboxes.get(request.params.id, request.key)
      const { path, ...options } = request.query
      const signal = disconnected(reply)
      await sandbox.use({ cause: 'file', what: `deleting ${path}`, signal }, (guest) =>
        guest.files.remove(path, { ...options, signal }),
      )
      return reply.code(204).send()
    },
  )
}

function requireFile({ type, path }: FileStat): void {
  if (type !== 'file') throw new DormouseError('not_a_file', `${path}: not a regular file`)
}
