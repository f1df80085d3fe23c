import {
  fileChangeSchema,
  fileListSchema,
  fileStatSchema,
  LIST_MAX_ENTRIES,
  listFilesQuery,
  makeDirectorySchema,
  moveFileSchema,
  statFileQuery,
  watchFilesQuery,
} from '@dormouse/contracts/http'
import type { FileStat, SnapshotFiles } from '@dormouse/engine'
import { z } from 'zod'
import { negotiate } from '../accept.ts'
import { disconnected, NDJSON, SSE, sendEvents } from '../event-stream.ts'
import { collectEntries } from '../guest/collect-entries.ts'
import { fileView } from '../guest/file-view.ts'
import { filesOf } from '../guest/files-of.ts'
import { firstEvent } from '../guest/first-event.ts'
import { notResumable } from '../guest/not-resumable.ts'
import { watchFiles } from '../guest/watch-files.ts'
import { json, type Routes, sandboxParams } from '../route.ts'
import { requireUtf8Queries } from '../utf8-query.ts'
import { GUEST_ERRORS } from './guest-errors.ts'

const JSON_TYPE = 'application/json'
const url = '/v1/sandboxes/:id/files'
const tags = ['files']

/** Names, directories and changes of files. */
export const fileRoutes: Routes = (app, services) => {
  requireUtf8Queries(app)
  statFileRoute(app, services)
  listFilesRoute(app, services)
  makeDirectoryRoute(app, services)
  moveFileRoute(app, services)
  watchFilesRoute(app, services)
}

const statFileRoute: Routes = (app, { sandboxes }) => {
  app.get(
    `${url}/stat`,
    {
      config: { scope: 'read', errors: [...GUEST_ERRORS, 'permission_denied', 'not_a_directory'] },
      schema: {
        operationId: 'statFile',
        summary: 'Get a file, directory or link',
        tags,
        params: sandboxParams,
        querystring: statFileQuery,
        response: { 200: json('Its attributes.', fileStatSchema) },
      },
    },
    async (request, reply) => {
      const sandbox = sandboxes.get(request.params.id, request.key)
      const { path, wake, ...options } = request.query
      const signal = disconnected(reply)
      const work = { cause: 'file', what: `looking at ${path}`, signal } as const
      return fileView(await filesOf(sandbox, wake).use(work, (guest) => guest.files.stat(path, options)))
    },
  )
}

const listFilesRoute: Routes = (app, { sandboxes }) => {
  app.get(
    `${url}/list`,
    {
      config: {
        scope: 'read',
        errors: [
          ...GUEST_ERRORS,
          'permission_denied',
          'not_a_directory',
          'not_acceptable',
          'too_large',
          'conflict',
        ],
      },
      schema: {
        operationId: 'listFiles',
        summary: 'List a directory',
        description: `In name order, directories before their contents; links are not followed. More than ${LIST_MAX_ENTRIES} entries only as NDJSON.`,
        tags,
        params: sandboxParams,
        querystring: listFilesQuery,
        response: {
          200: {
            description: 'The entries.',
            content: { [JSON_TYPE]: { schema: fileListSchema }, [NDJSON]: { schema: fileStatSchema } },
          },
        },
      },
    },
    async (request, reply) => {
      const type = negotiate(request.headers.accept, [JSON_TYPE, NDJSON])
      const sandbox = sandboxes.get(request.params.id, request.key)
      const { path, wake, ...options } = request.query
      const signal = disconnected(reply)
      const work = { cause: 'file', what: `listing ${path}`, signal } as const
      if (type === JSON_TYPE) {
        const items = await filesOf(sandbox, wake).use(work, (guest) =>
          collectEntries(path, guest.files.list(path, { ...options, signal })),
        )
        return { items }
      }
      const open = notResumable('the listing', (guest: { files: SnapshotFiles }) =>
        guest.files.list(path, { ...options, signal }),
      )
      const { all } = await firstEvent(filesOf(sandbox, wake).attach(work, open))
      await sendEvents(request, reply, NDJSON, views(all))
      return reply
    },
  )
}

const makeDirectoryRoute: Routes = (app, { sandboxes }) => {
  app.post(
    `${url}/mkdir`,
    {
      config: {
        scope: 'run',
        errors: [...GUEST_ERRORS, 'permission_denied', 'not_a_directory', 'already_exists', 'no_space'],
      },
      schema: {
        operationId: 'makeDirectory',
        summary: 'Make a directory',
        tags,
        params: sandboxParams,
        body: makeDirectorySchema,
        response: { 200: json('The directory exists.', fileStatSchema) },
      },
    },
    async (request) => {
      const sandbox = sandboxes.get(request.params.id, request.key)
      const { path, ...options } = request.body
      const work = { cause: 'file', what: `making ${path}` } as const
      return fileView(await sandbox.use(work, (guest) => guest.files.mkdir(path, options)))
    },
  )
}

const moveFileRoute: Routes = (app, { sandboxes }) => {
  app.post(
    `${url}/move`,
    {
      config: {
        scope: 'run',
        errors: [
          ...GUEST_ERRORS,
          'permission_denied',
          'not_a_file',
          'not_a_directory',
          'already_exists',
          'directory_not_empty',
          'conflict',
          'no_space',
        ],
      },
      schema: {
        operationId: 'moveFile',
        summary: 'Move or rename a file or directory',
        tags,
        params: sandboxParams,
        body: moveFileSchema,
        response: { 200: json('It was moved.', fileStatSchema) },
      },
    },
    async (request) => {
      const sandbox = sandboxes.get(request.params.id, request.key)
      const { from, to, ...options } = request.body
      const work = { cause: 'file', what: `moving ${from}` } as const
      return fileView(await sandbox.use(work, (guest) => guest.files.move({ from, to }, options)))
    },
  )
}

const watchFilesRoute: Routes = (app, { sandboxes }) => {
  app.get(
    `${url}/watch`,
    {
      config: {
        scope: 'read',
        errors: [...GUEST_ERRORS, 'permission_denied', 'not_a_directory', 'not_acceptable'],
      },
      schema: {
        operationId: 'watchFiles',
        summary: 'Follow changes of files',
        description:
          'Keeps the sandbox awake while the stream is open, and continues after a requested standby. Ends when the path itself is deleted.',
        tags,
        params: sandboxParams,
        querystring: watchFilesQuery,
        response: {
          200: {
            description: 'Changes, as they come.',
            content: {
              [NDJSON]: { schema: fileChangeSchema },
              [SSE]: { schema: z.string().describe('One change per `data:`.') },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const type = negotiate(request.headers.accept, [NDJSON, SSE])
      const sandbox = sandboxes.get(request.params.id, request.key)
      const changes = watchFiles(sandbox, request.query, disconnected(reply))
      const { all } = await firstEvent(changes)
      await sendEvents(request, reply, type, all)
      return reply
    },
  )
}

async function* views(entries: AsyncIterable<FileStat>) {
  for await (const entry of entries) yield fileView(entry)
}
