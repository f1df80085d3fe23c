import {
  fileListSchema,
  fileStatSchema,
  LIST_MAX_ENTRIES,
  listVolumeFilesQuery,
  makeVolumeDirectorySchema,
  moveVolumeFileSchema,
  removeVolumeFileQuery,
  statVolumeFileQuery,
  volumeFileQuery,
  volumeParams,
  writeVolumeFileQuery,
} from '@dormouse/contracts/http'
import { disconnected } from '../event-stream.ts'
import { collectEntries } from '../guest/collect-entries.ts'
import { fileView } from '../guest/file-view.ts'
import { useRawBodies } from '../guest/request-body.ts'
import {
  FILE_RESPONSES,
  fileBytes,
  OCTETS,
  receiveFile,
  SEND_FILE_TEXT,
  sendFile,
} from '../guest/send-file.ts'
import { volumeAccess } from '../guest/volume-access.ts'
import { json, nothing, type Routes } from '../route.ts'
import { requireUtf8Queries } from '../utf8-query.ts'

const url = '/v1/volumes/:name/files'
const tags = ['volumes']
const LOOKING = ['not_found', 'conflict', 'not_a_directory', 'overloaded'] as const
const CHANGING = [...LOOKING, 'permission_denied', 'limit_reached', 'no_space'] as const

/** Names and directories of volumes, without a sandbox. */
export const volumeFileRoutes: Routes = (app, services) => {
  requireUtf8Queries(app)
  statRoute(app, services)
  listRoute(app, services)
  mkdirRoute(app, services)
  moveRoute(app, services)
}

/** Contents of files of volumes. */
export const volumeContentRoutes: Routes = (app, services) => {
  useRawBodies(app)
  requireUtf8Queries(app)
  readRoute(app, services)
  writeRoute(app, services)
  removeRoute(app, services)
}

const statRoute: Routes = (app, { volumes }) => {
  app.get(
    `${url}/stat`,
    {
      config: { scope: 'read', errors: LOOKING },
      schema: {
        operationId: 'statVolumeFile',
        summary: 'Get a file, directory or link of a volume',
        tags,
        params: volumeParams,
        querystring: statVolumeFileQuery,
        response: { 200: json('Its attributes.', fileStatSchema) },
      },
    },
    async (request, reply) => {
      const { path, follow } = request.query
      const signal = disconnected(reply)
      return fileView(await volumes.files(request.params.name, request.key).stat(path, { follow, signal }))
    },
  )
}

const listRoute: Routes = (app, { volumes }) => {
  app.get(
    `${url}/list`,
    {
      config: { scope: 'read', errors: [...LOOKING, 'too_large'] },
      schema: {
        operationId: 'listVolumeFiles',
        summary: 'List a directory of a volume',
        description: `In name order, directories before their contents; links are not followed. At most ${LIST_MAX_ENTRIES} entries.`,
        tags,
        params: volumeParams,
        querystring: listVolumeFilesQuery,
        response: { 200: json('The entries.', fileListSchema) },
      },
    },
    async (request, reply) => {
      const { path, depth } = request.query
      const files = volumes.files(request.params.name, request.key)
      return {
        items: await collectEntries(path, files.list(path, { depth, signal: disconnected(reply) })),
      }
    },
  )
}

const mkdirRoute: Routes = (app, { volumes }) => {
  app.post(
    `${url}/mkdir`,
    {
      config: { scope: 'run', errors: [...CHANGING, 'already_exists'] },
      schema: {
        operationId: 'makeVolumeDirectory',
        summary: 'Make a directory in a volume',
        tags,
        params: volumeParams,
        body: makeVolumeDirectorySchema,
        response: { 200: json('The directory exists.', fileStatSchema) },
      },
    },
    async (request) => {
      const { path, ...options } = request.body
      return fileView(await volumes.files(request.params.name, request.key).mkdir(path, options))
    },
  )
}

const moveRoute: Routes = (app, { volumes }) => {
  app.post(
    `${url}/move`,
    {
      config: { scope: 'run', errors: [...CHANGING, 'already_exists', 'not_a_file', 'directory_not_empty'] },
      schema: {
        operationId: 'moveVolumeFile',
        summary: 'Move or rename a file or directory of a volume',
        tags,
        params: volumeParams,
        body: moveVolumeFileSchema,
        response: { 200: json('It was moved.', fileStatSchema) },
      },
    },
    async (request) => {
      const { from, to, ...options } = request.body
      return fileView(await volumes.files(request.params.name, request.key).move({ from, to }, options))
    },
  )
}

const readRoute: Routes = (app, { volumes }) => {
  app.get(
    url,
    {
      config: { scope: 'read', errors: [...LOOKING, 'not_a_file', 'range_not_satisfiable'] },
      schema: {
        operationId: 'readVolumeFile',
        summary: 'Read a file of a volume',
        description: SEND_FILE_TEXT,
        tags,
        params: volumeParams,
        querystring: volumeFileQuery,
        response: FILE_RESPONSES,
      },
    },
    (request, reply) => {
      const access = volumeAccess(volumes.files(request.params.name, request.key))
      return sendFile(request, reply, { access, path: request.query.path })
    },
  )
}

const writeRoute: Routes = (app, { volumes }) => {
  app.put(
    url,
    {
      config: { scope: 'run', errors: [...CHANGING, 'not_a_file', 'request_timeout'] },
      schema: {
        operationId: 'writeVolumeFile',
        summary: 'Write a file of a volume',
        description:
          'The body is the content, of any length. Readers see the old file or the new one. An interrupted upload leaves the old one. More than the volume may hold is refused.',
        tags,
        consumes: [OCTETS],
        params: volumeParams,
        querystring: writeVolumeFileQuery,
        body: fileBytes.optional(),
        response: { 200: json('The file was written.', fileStatSchema) },
      },
    },
    async (request, reply) => {
      const { path, ...options } = request.query
      return receiveFile(request, reply, (pieces, signal) =>
        volumes.files(request.params.name, request.key).write(path, pieces, { ...options, signal }),
      )
    },
  )
}

const removeRoute: Routes = (app, { volumes }) => {
  app.delete(
    url,
    {
      config: { scope: 'run', errors: [...LOOKING, 'permission_denied', 'directory_not_empty'] },
      schema: {
        operationId: 'deleteVolumeFile',
        summary: 'Delete a file or directory of a volume',
        description:
          'Deletes a symbolic link itself, never its target. `/` with `recursive` empties the volume.',
        tags,
        params: volumeParams,
        querystring: removeVolumeFileQuery,
        response: { 204: nothing('It was deleted.') },
      },
    },
    async (request, reply) => {
      const { path, recursive } = request.query
      await volumes.files(request.params.name, request.key).remove(path, { recursive })
      return reply.code(204).send()
    },
  )
}
