import { IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
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
import { REFUSED_HEADER } from './credentials.ts'
import { Exchange } from './exchange.ts'
import { forwardRequest, isRepeatable } from './forward-request.ts'
import { KeptConnections } from './kept-connections.ts'
import { isNavigation, moveIntoCookie } from './opened-link.ts'
import { PlainConnections, type PlainExchange } from './plain-connections.ts'
import type { PlainRequest } from './plain-request.ts'
import { PlainResponse } from './plain-response.ts'
import type { PreviewRequest, PreviewResponse } from './preview-message.ts'
import { drainRequest, proxyRequest } from './proxy-request.ts'
import { openRelay } from './relay.ts'

type PreviewServices = Pick<Services, 'access' | 'sandboxes' | 'ports' | 'deployments'>
type Address = PreviewAddress | ServiceAddress

/**
 * Serves requests to ports and services before the framework sees them. Call the returned function when the framework
 * listens.
 */
export function usePreviews(app: App, services: PreviewServices): () => void {
  const previews = new PreviewServer(app, services)
  const find = ({ url, headers }: PreviewRequest): Address | undefined => {
    const asked = { url, host: headers.host }
    return findPreview(asked, services.ports.domain) ?? findService(asked, services.ports.domain)
  }
  const plain = new PlainConnections({
    server: app.server as Server,
    headersMs: app.clientTimeouts.headersMs,
    find: (request) => {
      const address = find(request)
      if (address === undefined || app.takenBefore.some((isTaken) => isTaken(request))) return undefined
      return (socket, onOver) => previews.servePlain(request, socket, address, onOver)
    },
  })
  app.addHook('preClose', async () => {
    previews.close()
    plain.close()
  })
  return () => {
    interpose(app, 'request', (request: IncomingMessage, response: ServerResponse) => {
      const address = find(request)
      if (address !== undefined) void previews.serve(request, response, address, undefined)
      return address !== undefined
    })
    interpose(app, 'upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
      const address = find(request)
      if (address === undefined) return false
      void previews.serve(request, responseOf(request, socket), address, head)
      return true
    })
    plain.listen('setSecureContext' in app.server ? 'secureConnection' : 'connection')
  }
}

interface Asked {
  readonly request: PreviewRequest
  readonly response: PreviewResponse
  readonly address: Address
  readonly isUpgrade: boolean
}

class PreviewServer {
  readonly #app: App
  readonly #services: PreviewServices
  readonly #newId = requestIds()
  readonly #open = new Set<Exchange>()
  readonly #kept = new KeptConnections()
  readonly #logsRequests: boolean

  constructor(app: App, services: PreviewServices) {
    this.#app = app
    this.#logsRequests = app.log.level === 'info' || app.log.level === 'debug' || app.log.level === 'trace'
    this.#services = services
  }

  close(): void {
    for (const { departure } of this.#open) departure.leave()
  }

  /** Answers a request that Node's parser has read. `head`: of an upgrade, the bytes after its head. */
  async serve(
    request: IncomingMessage,
    response: ServerResponse,
    address: Address,
    head: Buffer | undefined,
  ): Promise<void> {
    const { socket } = request
    const exchange = this.#begin(request, socket)
    const over = () => this.#end(exchange, response.writableFinished)
    // An HTTP answer ends with the response; an upgraded connection ends with its socket.
    response.once('close', () => {
      if (head === undefined || socket.destroyed) over()
    })
    if (head !== undefined) socket.once('close', over)
    const asked = { request, response, address, isUpgrade: head !== undefined }
    await this.#answer(exchange, asked, (authorized) =>
      head === undefined && isRepeatable(request, authorized.target)
        ? this.#passKept(exchange, asked, authorized)
        : this.#passAlone(exchange, { ...asked, request, response, head }, authorized),
    )
  }

  /** Answers a request without Node's objects, and calls `onOver` when its response is complete. */
  servePlain(request: PlainRequest, socket: Socket, address: Address, onOver: () => void): PlainExchange {
    const exchange = this.#begin(request, socket)
    const over = () => {
      this.#end(exchange, true)
      onOver()
    }
    const response = new PlainResponse(socket, { request, onOver: over })
    const asked = { request, response, address, isUpgrade: false }
    void this.#answer(exchange, asked, (authorized) => this.#passKept(exchange, asked, authorized))
    return { leave: () => this.#end(exchange, false) }
  }

  #begin(request: PreviewRequest, socket: Socket): Exchange {
    const exchange = new Exchange(this.#newId(request), () => socket.destroy())
    this.#open.add(exchange)
    return exchange
  }

  #end(exchange: Exchange, isComplete: boolean): void {
    this.#open.delete(exchange)
    exchange.end(isComplete)
  }

  async #answer(
    exchange: Exchange,
    { request, response, address, isUpgrade }: Asked,
    pass: (authorized: AuthorizedPreview) => Promise<void>,
  ): Promise<void> {
    const { departure, requestId } = exchange
    try {
      const authorized =
        'service' in address
          ? await authorizeService(request, address, this.#services, departure.signal)
          : authorizePreview(request, address, this.#services)
      exchange.admit(authorized)
      const { target, opened } = authorized
      if (!/^(?:\/|\*$)/.test(target))
        throw new DormouseError('invalid_argument', 'the request target is not a path')
      if (opened !== undefined && !isUpgrade && isNavigation(request))
        moveIntoCookie(opened, { request, response, requestId, prefix: address.prefix, target })
      else await this.#passOrWait(exchange, authorized, pass)
    } catch (error) {
      if (!departure.hasGone) this.#refuse(error, requestId, request, response)
    } finally {
      this.#log(exchange, request.method, response.statusCode)
    }
  }

  /** A request that the program of a service has not received waits until the program listens. */
  async #passOrWait(
    { departure }: Exchange,
    authorized: AuthorizedPreview,
    pass: (authorized: AuthorizedPreview) => Promise<void>,
  ): Promise<void> {
    try {
      await pass(authorized)
    } catch (error) {
      if (authorized.untilListens === undefined || !isUnheard(error)) throw error
      await authorized.untilListens(departure.signal)
      await pass(authorized)
    }
  }

  /** Over a connection that other requests use too. */
  #passKept(
    { requestId, departure }: Exchange,
    { request, response, address }: Asked,
    { sandbox, target, port, onHeaders }: AuthorizedPreview,
  ): Promise<void> {
    const { prefix } = address
    const idleMs = this.#services.ports.idleConnectionMs
    const asked = {
      request,
      response,
      requestId,
      port,
      prefix,
      target,
      onHeaders,
      sandbox,
      departure,
      idleMs,
    }
    return forwardRequest(this.#kept, asked)
  }

  /** Over a connection of its own. */
  async #passAlone(
    { requestId, departure }: Exchange,
    { request, response, address, head }: AskedOfNode,
    { sandbox, target, port, onHeaders }: AuthorizedPreview,
  ): Promise<void> {
    const idleMs = this.#services.ports.idleConnectionMs
    response.setHeader('x-request-id', requestId)
    const relay = await openRelay(sandbox, port, { signal: departure.signal, idleMs, kept: this.#kept })
    try {
      const { prefix } = address
      await proxyRequest({ request, response, port, prefix, target, relay, head, onHeaders })
    } catch (error) {
      relay.connection.destroy()
      throw error
    }
  }

  #refuse(error: unknown, requestId: string, request: PreviewRequest, response: PreviewResponse): void {
    if (response.headersSent || response.destroyed) {
      response.destroy()
      return
    }
    if (request instanceof IncomingMessage) drainRequest(request)
    response.setHeader(REFUSED_HEADER, 'true')
    this.#app.errorAnswers.write(error, requestId, response, this.#app.log)
  }

  #log({ requestId, authorized, beganMs }: Exchange, method: string | undefined, status: number): void {
    if (!this.#logsRequests) return
    this.#app.log.info(
      {
        ...{ requestId, method, route: 'preview', port: authorized?.port },
        ...{ sandboxId: authorized?.sandbox.id, keyId: authorized?.keyId, status },
        durationMs: Math.round((performance.now() - beganMs) * 100) / 100,
      },
      'request',
    )
  }
}

type AskedOfNode = Asked & {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly head: Buffer | undefined
}

function isUnheard(error: unknown): boolean {
  return hasErrorCode(error, 'port_closed') && error.details['reason'] === 'nothing_listens'
}
