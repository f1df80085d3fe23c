import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { onAbort } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import {
  findPreview,
  findService,
  type PreviewAddress,
  type ServiceAddress,
} from '../../ports/preview-address.ts'
import { interpose, responseOf } from '../interpose.ts'
import { requestIds } from '../request-id.ts'
import type { App } from '../route.ts'
import type { Services } from '../services.ts'
import { type AuthorizedPreview, authorizePreview } from './authorize-preview.ts'
import { authorizeService } from './authorize-service.ts'
import { REFUSED_HEADER, TOKEN_COOKIE } from './credentials.ts'
import { Departure } from './departure.ts'
import { forwardRequest, isRepeatable } from './forward-request.ts'
import { publicOrigin } from './forwarded-headers.ts'
import { KeptConnections } from './kept-connections.ts'
import { drainRequest, proxyRequest } from './proxy-request.ts'
import { openRelay } from './relay.ts'
import { setWallClockTimer } from './wall-clock-timer.ts'

type PreviewServices = Pick<Services, 'access' | 'sandboxes' | 'ports' | 'deployments'>
type Address = PreviewAddress | ServiceAddress

/**
 * Serves requests to ports and services before the framework sees them. Call the returned function when the framework
 * listens.
 */
export function usePreviews(app: App, services: PreviewServices): () => void {
  const server = new PreviewServer(app, services)
  app.addHook('preClose', async () => server.close())
  const find = ({ url, headers }: IncomingMessage): Address | undefined => {
    const asked = { url, host: headers.host }
    return findPreview(asked, services.ports.domain) ?? findService(asked, services.ports.domain)
  }
  return () => {
    interpose(app, 'request', (request: IncomingMessage, response: ServerResponse) => {
      const address = find(request)
      if (address !== undefined) void server.serve(request, response, address, undefined)
      return address !== undefined
    })
    interpose(app, 'upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
      const address = find(request)
      if (address === undefined) return false
      void server.serve(request, responseOf(request, socket), address, head)
      return true
    })
  }
}

class PreviewServer {
  readonly #app: App
  readonly #services: PreviewServices
  readonly #newId = requestIds()
  readonly #open = new Set<Departure>()
  readonly #kept = new KeptConnections()

  constructor(app: App, services: PreviewServices) {
    this.#app = app
    this.#services = services
  }

  close(): void {
    for (const departure of this.#open) departure.leave()
  }

  async serve(
    request: IncomingMessage,
    response: ServerResponse,
    address: Address,
    head: Buffer | undefined,
  ): Promise<void> {
    const requestId = this.#newId(request)
    const began = performance.now()
    let authorized: AuthorizedPreview | undefined
    const socket = request.socket
    const departure = new Departure(() => socket.destroy())
    let revocation: Disposable | undefined
    let clearExpiry = () => {}
    this.#open.add(departure)
    // An HTTP answer ends with the response; an upgraded connection ends with its socket.
    const over = () => {
      this.#open.delete(departure)
      revocation?.[Symbol.dispose]()
      clearExpiry()
      authorized?.release?.()
      if (!response.writableFinished) departure.leave()
    }
    response.once('close', () => {
      if (head === undefined || socket.destroyed) over()
    })
    if (head !== undefined) socket.once('close', over)
    try {
      authorized =
        'service' in address
          ? await authorizeService(request, address, this.#services, departure.signal)
          : authorizePreview(request, address, this.#services)
      // Its client may have gone while a replica was started.
      if (departure.hasGone) authorized.release?.()
      revocation = onAbort(authorized.revoked, departure.leave)
      if (authorized.expiresAtMs !== undefined)
        clearExpiry = setWallClockTimer(authorized.expiresAtMs, departure.leave)
      await this.#pass({ request, response, address, authorized, head, departure, requestId })
    } catch (error) {
      if (!departure.hasGone) this.#refuse(error, requestId, request, response)
    } finally {
      this.#app.log.info(
        {
          ...{ requestId, method: request.method, route: 'preview', port: authorized?.port },
          ...{ sandboxId: authorized?.sandbox.id, keyId: authorized?.keyId, status: response.statusCode },
          durationMs: Math.round((performance.now() - began) * 100) / 100,
        },
        'request',
      )
    }
  }

  async #pass(passed: {
    request: IncomingMessage
    response: ServerResponse
    address: Address
    authorized: AuthorizedPreview
    head: Buffer | undefined
    departure: Departure
    requestId: string
  }): Promise<void> {
    const { request, response, address, authorized, head, departure, requestId } = passed
    const { sandbox, target, opened, port, onHeaders } = authorized
    if (!/^(?:\/|\*$)/.test(target))
      throw new DormouseError('invalid_argument', 'the request target is not a path')
    const { prefix } = address
    if (opened !== undefined && head === undefined && isNavigation(request)) {
      response.writeHead(303, {
        'x-request-id': requestId,
        location: (prefix ?? '') + target.replace(/^[/\\]+/, '/'),
        'set-cookie': cookieOf(opened, request, prefix),
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-store',
      })
      response.end()
      return
    }
    const idleMs = this.#services.ports.idleConnectionMs
    if (head === undefined && isRepeatable(request, target)) {
      const forwarded = {
        ...{ request, response, requestId, port, prefix, target, sandbox, departure, idleMs },
        onHeaders,
      }
      await forwardRequest(this.#kept, forwarded)
      return
    }
    response.setHeader('x-request-id', requestId)
    const relay = await openRelay(sandbox, port, { signal: departure.signal, idleMs, kept: this.#kept })
    try {
      await proxyRequest({ request, response, port, prefix, target, relay, head, onHeaders })
    } catch (error) {
      relay.connection.destroy()
      throw error
    }
  }

  #refuse(error: unknown, requestId: string, request: IncomingMessage, response: ServerResponse): void {
    if (response.headersSent || response.destroyed) {
      response.destroy()
      return
    }
    drainRequest(request)
    response.setHeader('x-request-id', requestId)
    response.setHeader(REFUSED_HEADER, 'true')
    this.#app.errorAnswers.write(error, requestId, response, this.#app.log)
  }
}

/**
 * True for browser navigations: the token moves from the address bar into a cookie. Programs get the response at once.
 */
function isNavigation({ method, headers }: IncomingMessage): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false
  return headers['sec-fetch-mode'] === 'navigate' || headers.accept?.includes('text/html') === true
}

function cookieOf(
  { token, expiresAtMs }: { token: string; expiresAtMs: number },
  request: IncomingMessage,
  prefix: string | undefined,
): string {
  const seconds = Math.max(1, Math.floor((expiresAtMs - Date.now()) / 1000))
  // In a frame of our page, which is another site: a cookie of that page's own partition. Browsers take `Secure` on
  // `localhost` without TLS.
  const isFramed = request.headers['sec-fetch-dest'] === 'iframe'
  const isSecure = publicOrigin(request).scheme === 'https'
  const site = isFramed ? 'None; Secure; Partitioned' : isSecure ? 'Lax; Secure' : 'Lax'
  return `${TOKEN_COOKIE}=${token}; Path=${prefix ?? ''}/; Max-Age=${seconds}; HttpOnly; SameSite=${site}`
}
