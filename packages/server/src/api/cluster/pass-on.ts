import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { DormouseError, isSandboxId, isServiceId } from '@dormouse/contracts'
import type { AuthenticatedKey } from '../../access/access.ts'
import { findPreview, findService } from '../../ports/preview-address.ts'
import { interposeLater, responseOf } from '../interpose.ts'
import { drainRequest } from '../preview/proxy-request.ts'
import { requestIds } from '../request-id.ts'
import type { App } from '../route.ts'
import type { Services } from '../services.ts'
import { HOP_HEADER, HostConnections, unreachable } from './host-connections.ts'

/** A host of the cluster, as other hosts reach it. */
export interface OtherHost {
  readonly id: string
  readonly address: string
}

export type Place =
  | { readonly kind: 'here' | 'unknown' }
  | { readonly kind: 'elsewhere'; readonly host: OtherHost }

/** What the API asks of the cluster. */
export interface ClusterDoor {
  readonly hostId: string
  /** Certificates that sign those of the other hosts, instead of the usual ones. */
  readonly trust?: { ca?: string[] } | undefined
  /** False: this host must not act for its sandboxes. */
  readonly isHeld: boolean
  isHere(ref: string): boolean
  /** Whether the host renews its lease. */
  isAlive(hostId: string): boolean
  /**
   * Where a sandbox is. Brings it here when its host is lost, or was given to this one. `isFresh`: asks NATS, not what
   * was heard of. Throws `host_unavailable`.
   */
  locate(ref: string, options: { owner: string | undefined; isFresh: boolean }): Promise<Place>
  /**
   * The other host that has a service; undefined, now or later: this one. Brings the service here when its host is lost.
   * Rejects with `host_unavailable`.
   */
  placeOfService(ref: string, owner: string | undefined): Promise<OtherHost | undefined> | undefined
  /** `listener` is called when this host must not act for its sandboxes any more. */
  onLost(listener: () => void): void
}

/** What can become of a request or an upgrade. */
interface Ways {
  /** This host serves it. */
  next(): void
  refuse(error: unknown): void
  pass(host: OtherHost): void
}

const BY_PATH = /^\/v1\/sandboxes\/(?<ref>[^/?]+)/
const OF_A_SERVICE = /^\/v1\/services\/(?<service>[^/?]+)/
const OF_A_NODE = /^\/v1\/nodes\/(?<node>[^/?]+)/
/** What a host without a lease still answers: nothing that acts for a sandbox. */
const ALWAYS =
  /^\/(?:healthz|metrics|openapi\.json|v1\/nodes|v1\/server|v1\/session)(?:[/?]|$)|^\/(?:assets\/.*)?$/

/**
 * Passes requests for sandboxes of other hosts on to them, with one hop, before the framework sees them. Call the
 * returned function when the framework listens.
 */
export function usePassOn(app: App, services: Services, door: ClusterDoor): () => void {
  const hosts = new HostConnections(door)
  const sockets = new Set<Socket>()
  // Connections of previews, which may otherwise be answered before Node sees their requests.
  app.takenBefore.push(({ url, headers }) => {
    const ref = findPreview({ url, host: headers.host }, services.ports.domain)?.sandbox
    const service = findService({ url, host: headers.host }, services.ports.domain)?.service
    const isPlain = ref === undefined && service === undefined
    return !door.isHeld || (!isPlain && (ref === undefined || !door.isHere(ref)))
  })
  const newId = requestIds()
  app.addHook('onClose', async () => hosts.close())
  // Clients of streams and terminals must not see more of sandboxes that another host may run now.
  door.onLost(() => {
    for (const socket of sockets) socket.destroy()
  })
  const refuse = (error: unknown, request: IncomingMessage, response: ServerResponse) => {
    if (response.headersSent || response.destroyed) return void response.destroy()
    drainRequest(request)
    const requestId = newId(request)
    response.setHeader('x-request-id', requestId)
    app.errorAnswers.write(error, requestId, response, app.log)
  }
  /** False: this host serves the request. Otherwise one of the functions is called, now or later. */
  const take = (request: IncomingMessage, { next, refuse, pass }: Ways): boolean => {
    const problem = problemOf(request, door)
    if (problem !== undefined) {
      refuse(problem)
      return true
    }
    const place = findTarget(request, services, door)
    place?.then((found) => (found === undefined ? next() : pass(found)), refuse)
    return place !== undefined
  }

  return () => {
    app.server.on('connection', (socket: Socket) => {
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
    })
    interposeLater(app, 'request', ([request, response]: [IncomingMessage, ServerResponse], next) =>
      take(request, {
        next,
        refuse: (error) => refuse(error, request, response),
        pass: (host) => hosts.request(host, request, response, refuse),
      }),
    )
    interposeLater(app, 'upgrade', ([request, socket, head]: [IncomingMessage, Socket, Buffer], next) =>
      take(request, {
        next,
        refuse: (error) => refuse(error, request, responseOf(request, socket)),
        pass: (host) => hosts.upgrade(host, request, { socket, head }),
      }),
    )
  }
}

function problemOf({ url = '' }: IncomingMessage, { isHeld }: ClusterDoor): DormouseError | undefined {
  if (isHeld || ALWAYS.test(url)) return undefined
  return new DormouseError(
    'cluster_unavailable',
    'This host has lost its lease and does not act for its sandboxes.',
    {
      hint: 'Use another host, or try again when this one reaches NATS.',
      details: { retryAfterMs: 1_000 },
    },
  )
}

/** Undefined, now or later, when this host serves the request. */
function findTarget(
  request: IncomingMessage,
  { access, ports }: Services,
  door: ClusterDoor,
): Promise<OtherHost | undefined> | undefined {
  const isPassedOn = request.headers[HOP_HEADER] !== undefined
  const { url = '', headers } = request
  /** One hop: what has moved on meanwhile is found by the next try. */
  const requireLast = (host: OtherHost | undefined) => {
    if (host !== undefined && isPassedOn) throw unreachable(host)
    return host
  }
  const placed = findPlaced(request, { access, ports }, door)
  if (placed !== undefined) return placed.then(requireLast)
  const ref =
    findPreview({ url, host: headers.host }, ports.domain)?.sandbox ?? BY_PATH.exec(url)?.groups?.['ref']
  const node = OF_A_NODE.exec(url)?.groups?.['node']
  const one = { isFresh: isPassedOn, owner: undefined }
  if (node !== undefined && node !== door.hostId) return door.locate(node, one).then(hostOf)
  if (ref === undefined || door.isHere(ref)) return undefined
  const caller = isSandboxId(ref) ? undefined : findCaller(request, access)
  // Without a key a name says nothing, and the answer is the same on every host.
  if (!isSandboxId(ref) && caller === undefined) return undefined
  return door.locate(ref, { ...one, owner: caller?.keyId }).then((place) => requireLast(hostOf(place)))
}

/** The other host of a service. */
function findPlaced(
  request: IncomingMessage,
  { access, ports }: Pick<Services, 'access' | 'ports'>,
  door: ClusterDoor,
): Promise<OtherHost | undefined> | undefined {
  const { url = '', headers } = request
  const service =
    findService({ url, host: headers.host }, ports.domain)?.service ??
    OF_A_SERVICE.exec(url)?.groups?.['service']
  if (service === undefined) return undefined
  const owner = isServiceId(service) ? undefined : findCaller(request, access)?.keyId
  return door.placeOfService(service, owner)
}

function hostOf(place: Place): OtherHost | undefined {
  return place.kind === 'elsewhere' ? place.host : undefined
}

function findCaller({ headers }: IncomingMessage, access: Services['access']): AuthenticatedKey | undefined {
  try {
    return access.authenticate(headers.authorization)
  } catch {
    return undefined
  }
}
