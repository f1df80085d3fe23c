import type { IncomingMessage, ServerResponse } from 'node:http'
import { createContextValues } from '@connectrpc/connect'
import { connectNodeAdapter } from '@connectrpc/connect-node'
import { z } from 'zod'
import type { BackendSandbox } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'
import { readJson, sendError, sendJson, sendNothing } from '../http/respond.ts'
import { type Exchange, Router } from '../http/router.ts'
import type { SandboxRecord } from '../sandbox/record.ts'
import { filesystemService } from '../wire/filesystem.ts'
import { processService } from '../wire/process.ts'
import { asOwner } from './as-owner.ts'
import { headerOf, sandboxKey } from './caller.ts'
import { download } from './download.ts'
import { filesystemMethods } from './filesystem-service.ts'
import { absolutePath } from './paths.ts'
import { processMethods } from './process-service.ts'
import { checkFileAccess, isSame } from './signature.ts'
import { StartedProcesses } from './started-processes.ts'
import { upload } from './upload.ts'
import { Watchers } from './watchers.ts'

/** The port that clients reach E2B's agent at. */
export const ENVD_PORT = 49_983
/** At least the version at which clients use everything of it. */
export const ENVD_VERSION = '0.6.4'

/** Routes of E2B's control plane, which its proxy does not pass on either. */
const INTERNAL = /^\/(?:init|freeze|unfreeze|collapse|fsfreeze|fsthaw|upgrade)$/
const RESERVED =
  'This endpoint is reserved for the E2B control plane and is not reachable through the sandbox URL'
const JSON_MAX_BYTES = 1024 * 1024
const MESSAGE_MAX_BYTES = 64 * 1024 * 1024

interface InSandbox {
  readonly sandbox: BackendSandbox
  readonly record: SandboxRecord
}

/** E2B's agent, as seen from outside: files over HTTP, and processes and the file tree over Connect. */
export class Envd {
  readonly #started = new StartedProcesses()
  readonly #watchers = new Watchers()
  readonly #router = new Router<InSandbox>()
  readonly #rpc: (request: IncomingMessage, response: ServerResponse) => void
  readonly #sandboxes = new WeakMap<IncomingMessage, BackendSandbox>()

  constructor() {
    this.#rpc = connectNodeAdapter({
      routes: (router) => {
        router.service(processService, processMethods(this.#started))
        router.service(filesystemService, filesystemMethods(this.#watchers))
      },
      grpc: false,
      grpcWeb: false,
      readMaxBytes: MESSAGE_MAX_BYTES,
      contextValues: (request) =>
        createContextValues().set(sandboxKey, this.#sandboxes.get(request as IncomingMessage)),
    })
    const router = this.#router
    router.on('GET', '/health', ({ response }) => sendNothing(response))
    router.on('GET', '/files', async ({ sandbox, record, ...exchange }) => {
      authorizeFile(record, 'read', exchange)
      await download(sandbox, exchange)
    })
    router.on('POST', '/files', async ({ sandbox, record, ...exchange }) => {
      authorizeFile(record, 'write', exchange)
      await upload(sandbox, exchange)
    })
    router.on('POST', '/files/compose', compose)
    router.on('GET', '/metrics', metrics)
    router.on('GET', '/envs', environment)
  }

  forget(sandboxId: string): void {
    this.#started.forget(sandboxId)
    this.#watchers.forget(sandboxId)
  }

  async serve(exchange: Omit<Exchange, 'params'> & InSandbox & { path: string }): Promise<void> {
    const { request, response, record, path } = exchange
    try {
      if (INTERNAL.test(path)) {
        sendJson(response, 404, { message: RESERVED, path, code: 404 })
        return
      }
      const { handle, params, isKnownPath } = this.#router.find(request.method, path)
      const isOpen = path === '/health' || path === '/files'
      if (!isOpen) authorize(record, request)
      if (handle !== undefined) await handle({ ...exchange, params })
      else if (isKnownPath) sendNothing(response, 405)
      else {
        this.#sandboxes.set(request, exchange.sandbox)
        this.#rpc(request, response)
      }
    } catch (error) {
      request.resume()
      sendError(response, error)
    }
  }
}

function authorize({ accessToken }: SandboxRecord, { headers }: IncomingMessage): void {
  if (accessToken === undefined || isSame(headerOf(headers, 'x-access-token') ?? '', accessToken)) return
  throw new ApiError(
    401,
    'unauthorized access, please provide a valid access token or method signing if supported',
  )
}

function authorizeFile(
  { accessToken }: SandboxRecord,
  operation: 'read' | 'write',
  exchange: Exchange,
): void {
  const given = headerOf(exchange.request.headers, 'x-access-token')
  checkFileAccess(accessToken, { operation, query: exchange.query, given })
}

const composeBody = z.object({
  source_paths: z.array(z.string()).min(1).max(10_000),
  destination: z.string().min(1),
  username: z.string().optional(),
})

/** Joins files into one and removes the parts. */
async function compose({ request, response, sandbox }: Exchange & InSandbox): Promise<void> {
  const parsed = composeBody.safeParse(await readJson(request, JSON_MAX_BYTES))
  if (!parsed.success) throw new ApiError(400, z.prettifyError(parsed.error))
  const { source_paths: parts, destination, username: user } = parsed.data
  const written = await sandbox.use({ cause: 'file', what: 'joining files' }, async (guest) => {
    const as = user === undefined ? {} : { user }
    const sources: string[] = []
    for (const path of parts) sources.push(await absolutePath(guest, { path, ...as }))
    const path = await absolutePath(guest, { path: destination, ...as })
    async function* joined() {
      for (const source of sources) yield* guest.files.read(source, { user: 'root' })
    }
    const stat = await asOwner(guest, { path, user }, (who) =>
      guest.files.write(path, joined(), { parents: true, ...who }),
    )
    for (const source of sources) if (source !== path) await guest.files.remove(source, { user: 'root' })
    return stat
  })
  sendJson(response, 200, { path: written.path, name: written.name, type: 'file' })
}

const MIB = 1024 * 1024

async function metrics({ response, sandbox }: Exchange & InSandbox): Promise<void> {
  const { limits } = sandbox.view()
  const { usage } = await sandbox.metrics({ withMemory: false })
  const used = usage?.memoryBytes ?? 0
  sendJson(response, 200, {
    ts: Math.floor(Date.now() / 1000),
    cpu_count: limits.cpus,
    cpu_used_pct: 0,
    mem_total: limits.memoryBytes,
    mem_used: used,
    mem_cache: 0,
    mem_total_mib: Math.floor(limits.memoryBytes / MIB),
    mem_used_mib: Math.floor(used / MIB),
    disk_used: 0,
    disk_total: limits.diskBytes,
  })
}

/** The variables that every process gets. */
async function environment({ response, sandbox }: Exchange & InSandbox): Promise<void> {
  const request = { args: ['/usr/bin/env', '-0'] }
  let text = ''
  await sandbox.use({ cause: 'process', what: 'reading the environment' }, async (guest) => {
    for await (const event of guest.processes.stream(request)) if (event.type === 'stdout') text += event.data
  })
  const entries = text.split('\0').filter((line) => line.includes('='))
  sendJson(
    response,
    200,
    Object.fromEntries(
      entries.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
    ),
  )
}
