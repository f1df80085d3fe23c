import { Readable } from 'node:stream'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import {
  fileQuery,
  fileStatSchema,
  readFileQuery,
  removeFileQuery,
  writeFileQuery,
} from '@dormouse/contracts/http'
import type { FileStat } from '@dormouse/engine'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { disconnected } from '../event-stream.ts'
import { parseRange, type RangeRequest } from '../guest/byte-range.ts'
import { download } from '../guest/download.ts'
import { etagOf, fileView, lastModified, setFileHeaders } from '../guest/file-view.ts'
import { filesOf } from '../guest/files-of.ts'
import { bodyPieces, discardBody, useRawBodies } from '../guest/request-body.ts'
import { upload } from '../guest/upload.ts'
import { READER_STALL_MS } from '../limits.ts'
import { json, nothing, type Routes, sandboxParams } from '../route.ts'
import { requireUtf8Queries } from '../utf8-query.ts'
import { GUEST_ERRORS } from './guest-errors.ts'

const url = '/v1/sandboxes/:id/files'
const tags = ['files']
const OCTETS = 'application/octet-stream'
const bytes = z.unknown().meta({ type: 'string', format: 'binary' })

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
        description:
          'Takes `Range` (one range of bytes), `If-Range` and `If-None-Match`. If the file changes during the read, the connection ends early.',
        tags,
        params: sandboxParams,
        querystring: readFileQuery,
        response: {
          200: { description: 'The bytes.', content: { [OCTETS]: { schema: bytes } } },
          206: { description: 'The bytes of the range.', content: { [OCTETS]: { schema: bytes } } },
          304: z.undefined().describe('Not changed since the `ETag` in `If-None-Match`.'),
        },
      },
    },
    async (request, reply) => {
      const sandbox = sandboxes.get(request.params.id, request.key)
      const signal = disconnected(reply)
      const { path, wake, ...as } = request.query
      const access = filesOf(sandbox, wake)
      const look = () =>
        access.use({ cause: 'file', what: `reading ${path}`, signal }, (guest) => guest.files.stat(path, as))
      if (isMatch(request.headers['if-none-match'], await lookIf(request, 'if-none-match', look))) {
        return reply.code(304).send()
      }
      const range = usableRange(request, await lookIf(request, 'if-range', look))
      const file = await download(access, { path, ...as, range, signal }).catch((error: unknown) => {
        if (hasErrorCode(error, 'range_not_satisfiable')) {
          reply.header('content-range', `bytes */${String(error.details['sizeBytes'])}`)
        }
        throw error
      })
      setFileHeaders(reply, file.stat)
      if (file.range !== undefined) {
        const { offset, length } = file.range
        reply.code(206)
        reply.header('content-range', `bytes ${offset}-${offset + length - 1}/${file.stat.sizeBytes}`)
      }
      if (file.lengthBytes !== undefined) reply.header('content-length', file.lengthBytes)
      reply.raw.setTimeout(READER_STALL_MS, () => reply.raw.destroy())
      return reply.send(Readable.from(file.data, { objectMode: false }))
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
        body: bytes.optional(),
        response: { 200: json('The file was written.', fileStatSchema) },
      },
    },
    async (request, reply) => {
      const sandbox = sandboxes.get(request.params.id, request.key)
      const { path, ...options } = request.query
      try {
        const signal = disconnected(reply)
        return fileView(await upload(sandbox, bodyPieces(request.body), { path, options, signal }))
      } catch (error) {
        await discardBody(request.body, reply)
        throw error
      }
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

async function lookIf(
  request: FastifyRequest,
  header: 'if-none-match' | 'if-range',
  look: () => Promise<FileStat>,
): Promise<FileStat | undefined> {
  return request.headers[header] === undefined ? undefined : await look()
}

function isMatch(header: string | undefined, stat: FileStat | undefined): boolean {
  if (header === undefined || stat === undefined || stat.type !== 'file') return false
  return header
    .split(',')
    .map((tag) => tag.trim())
    .some((tag) => tag === '*' || tag === etagOf(stat))
}

/** With `If-Range`, serves the range only if the file is unchanged. Our tags are weak, so only the date counts. */
function usableRange(request: FastifyRequest, stat: FileStat | undefined): RangeRequest | undefined {
  const range = parseRange(request.headers.range)
  const condition = request.headers['if-range']
  if (range === undefined || condition === undefined || stat === undefined) return range
  return condition === lastModified(stat) ? range : undefined
}
