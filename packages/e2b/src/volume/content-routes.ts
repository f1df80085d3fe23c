import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { posix } from 'node:path'
import { hasErrorCode } from '@dormouse/contracts'
import type { FileStat, Guest } from '@dormouse/engine'
import { z } from 'zod'
import { ApiError } from '../http/api-error.ts'
import { disconnected, readJson, sendError, sendJson, sendNothing } from '../http/respond.ts'
import { type Exchange, Router } from '../http/router.ts'
import { MOUNT, type VolumeContent } from './volume-content.ts'

const JSON_MAX_BYTES = 64 * 1024
const ROOT = { user: 'root' } as const
const ENTRIES_MAX = 100_000

const metadataBody = z.object({
  uid: z.int().nullish(),
  gid: z.int().nullish(),
  mode: z.int().nullish(),
})

interface InVolume {
  /** Where the path of the request is inside the sandbox. */
  readonly path: string
  readonly use: <Value>(what: string, work: (guest: Guest) => Promise<Value>) => Promise<Value>
}

/** The files of a volume, for the holder of its token. */
export class ContentRoutes {
  readonly #content: VolumeContent
  readonly #router = new Router<InVolume>()

  constructor(content: VolumeContent) {
    this.#content = content
    const router = this.#router
    const base = '/volumecontent/:volume'
    router.on('GET', `${base}/path`, readPath)
    router.on('PATCH', `${base}/path`, changePath)
    router.on('DELETE', `${base}/path`, removePath)
    router.on('GET', `${base}/dir`, listDirectory)
    router.on('POST', `${base}/dir`, makeDirectory)
    router.on('GET', `${base}/file`, readFile)
    router.on('PUT', `${base}/file`, writeFile)
  }

  has(path: string): boolean {
    return this.#router.find(undefined, path).isKnownPath
  }

  async serve(
    request: IncomingMessage,
    response: ServerResponse,
    { path, query }: { path: string; query: URLSearchParams },
  ): Promise<void> {
    try {
      const { handle, params } = this.#router.find(request.method, path)
      if (handle === undefined) throw new ApiError(405, 'method not allowed')
      const volume = params['volume'] ?? ''
      const token = (request.headers.authorization ?? '').replace(/^Bearer +/i, '')
      const sandbox = await this.#content.open(volume, this.#content.ownerOf(volume, token))
      const signal = disconnected(response)
      const use: InVolume['use'] = (what, work) => sandbox.use({ cause: 'file', what, signal }, work)
      // A path cannot leave the volume; what a link leads to is in this sandbox, which has nothing else.
      const inside = posix.join(MOUNT, posix.resolve('/', query.get('path') ?? '/'))
      await handle({ request, response, params, query, path: inside.replace(/(.)\/$/, '$1'), use })
    } catch (error) {
      request.resume()
      const isMissing = hasErrorCode(error, 'not_found')
      sendError(response, isMissing ? new ApiError(404, 'path not found') : error)
    }
  }
}

async function readPath({ response, path, use }: Exchange & InVolume): Promise<void> {
  sendJson(response, 200, await use('looking at a file of a volume', (guest) => statOf(guest, path)))
}

async function changePath({ request, response, path, use }: Exchange & InVolume): Promise<void> {
  const parsed = metadataBody.safeParse(await readJson(request, JSON_MAX_BYTES))
  if (!parsed.success) throw new ApiError(400, z.prettifyError(parsed.error))
  const stat = await use('changing a file of a volume', async (guest) => {
    await guest.files.stat(path, ROOT)
    await setOwner(guest, path, parsed.data)
    return statOf(guest, path)
  })
  sendJson(response, 200, stat)
}

async function removePath({ response, path, use }: Exchange & InVolume): Promise<void> {
  if (path === MOUNT) throw new ApiError(400, 'the volume itself is not removed here')
  await use('removing a file of a volume', (guest) => guest.files.remove(path, { recursive: true, ...ROOT }))
  sendNothing(response)
}

async function listDirectory({ response, query, path, use }: Exchange & InVolume): Promise<void> {
  const depth = Math.max(1, Number(query.get('depth')) || 1)
  const entries = await use('listing a directory of a volume', async (guest) => {
    const found: object[] = []
    for await (const stat of guest.files.list(path, { depth, ...ROOT })) {
      if (found.length === ENTRIES_MAX) throw new ApiError(400, `more than ${ENTRIES_MAX} entries`)
      found.push(viewOf(stat))
    }
    return found
  })
  sendJson(response, 200, entries)
}

async function makeDirectory({ response, query, path, use }: Exchange & InVolume): Promise<void> {
  const stat = await use('making a directory in a volume', async (guest) => {
    await guest.files.mkdir(path, { parents: query.get('force') === 'true', ...ROOT })
    await setOwner(guest, path, ownerIn(query))
    return statOf(guest, path)
  })
  sendJson(response, 201, stat)
}

async function readFile({ response, path, use }: Exchange & InVolume): Promise<void> {
  await use('reading a file of a volume', async (guest) => {
    const { stat, data } = await guest.files.open(path, ROOT)
    response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': stat.sizeBytes })
    for await (const piece of data) if (!response.write(piece)) await once(response, 'drain')
    response.end()
  })
}

async function writeFile({ request, response, query, path, use }: Exchange & InVolume): Promise<void> {
  const stat = await use('writing a file of a volume', async (guest) => {
    await guest.files.write(path, request, { parents: query.get('force') !== 'false', ...ROOT })
    await setOwner(guest, path, ownerIn(query))
    return statOf(guest, path)
  })
  sendJson(response, 201, stat)
}

function ownerIn(query: URLSearchParams): z.output<typeof metadataBody> {
  const number = (name: string) => (query.has(name) ? Number(query.get(name)) : undefined)
  return { uid: number('uid'), gid: number('gid'), mode: number('mode') }
}

async function setOwner(
  guest: Guest,
  path: string,
  { uid, gid, mode }: z.output<typeof metadataBody>,
): Promise<void> {
  const commands: string[][] = []
  if (uid != null || gid != null)
    commands.push(['chown', `${uid ?? ''}${gid == null ? '' : `:${gid}`}`, '--', path])
  if (mode != null) commands.push(['chmod', (mode & 0o7777).toString(8), '--', path])
  for (const args of commands)
    for await (const event of guest.processes.stream({ args, ...ROOT }))
      if (event.type === 'exit' && event.exitCode !== 0) throw new ApiError(400, `${args[0]} was refused`)
}

async function statOf(guest: Guest, path: string): Promise<object> {
  return viewOf(await guest.files.stat(path, { follow: false, ...ROOT }))
}

function viewOf({ name, type, path, sizeBytes, mode, uid, gid, modifiedAt, target }: FileStat): object {
  const time = new Date(modifiedAt).toISOString()
  const shown = path.slice(MOUNT.length) || '/'
  return {
    name: shown === '/' ? '/' : name,
    type: type === 'file' || type === 'directory' || type === 'symlink' ? type : 'unknown',
    path: shown,
    size: sizeBytes,
    mode: mode & 0o7777,
    ...{ uid, gid, atime: time, mtime: time, ctime: time },
    ...(target !== undefined && { target }),
  }
}
