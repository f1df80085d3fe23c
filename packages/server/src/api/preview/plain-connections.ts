import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { KEEP_ALIVE_TIMEOUT_MS } from '../limits.ts'
import { type PlainRequest, parsePlainRequest } from './plain-request.ts'

/** How often idle connections are checked. */
const SWEEP_MS = 2_000

export interface PlainServer {
  /** The server whose new connections are looked at first. */
  readonly server: Server
  /** How long a client may wait with its first request. */
  readonly headersMs: number
  /** Returns a function that answers the request and calls `onOver` once; undefined when Node has to serve it. */
  find(request: PlainRequest): ((socket: Socket, onOver: () => void) => PlainExchange) | undefined
}

export interface PlainExchange {
  /** The client has gone. */
  leave(): void
}

/**
 * Looks at the bytes of new connections before Node's HTTP server does. As long as their requests are plain and for
 * previews, it answers them without Node's HTTP objects. With the first other request the connection becomes one of
 * Node's and stays that.
 */
export class PlainConnections {
  readonly #options: PlainServer
  readonly #open = new Set<PlainConnection>()
  #sweep: NodeJS.Timeout | undefined

  constructor(options: PlainServer) {
    this.#options = options
  }

  /** Call when all listeners of the server are in place. `event`: with TLS `secureConnection`. */
  listen(event: 'connection' | 'secureConnection'): void {
    const { server, find } = this.#options
    const listeners = server.listeners(event)
    server.removeAllListeners(event)
    server.on(event, (socket: Socket) => {
      const handOver = () => {
        for (const listener of listeners) listener.call(server, socket)
      }
      const onClose = () => this.#open.delete(connection)
      const refuse = (error: Error) => server.emit('clientError', error, socket)
      const connection = new PlainConnection(socket, { find, handOver, refuse, onClose })
      this.#open.add(connection)
      this.#sweep ??= setInterval(this.#endIdle, Math.min(SWEEP_MS, this.#options.headersMs)).unref()
    })
  }

  /** Ends all connections. */
  close(): void {
    for (const connection of this.#open) connection.destroy()
  }

  readonly #endIdle = () => {
    const now = performance.now()
    for (const connection of this.#open) {
      const maxMs = connection.isNew ? this.#options.headersMs : KEEP_ALIVE_TIMEOUT_MS
      if (connection.idleSinceMs !== undefined && now - connection.idleSinceMs > maxMs) connection.expire()
    }
    if (this.#open.size > 0) return
    clearInterval(this.#sweep)
    this.#sweep = undefined
  }
}

interface ConnectionOptions {
  readonly find: PlainServer['find']
  readonly handOver: () => void
  /** Answers what is not a request, as Node's server does. False: nothing answers it. */
  readonly refuse: (error: Error) => boolean
  readonly onClose: () => void
}

class PlainConnection {
  /** It has not sent a request yet. */
  isNew = true
  /** Undefined while a request is answered. */
  idleSinceMs: number | undefined = performance.now()
  readonly #socket: Socket
  readonly #options: ConnectionOptions
  #exchange: PlainExchange | undefined
  /** The last request, and the bytes that it was read from. */
  #last: { readonly data: Buffer; readonly request: PlainRequest } | undefined
  /** Bytes that came before the last response was complete. */
  #ahead: Buffer | undefined

  constructor(socket: Socket, options: ConnectionOptions) {
    this.#socket = socket
    this.#options = options
    socket.on('data', this.#take)
    socket.on('end', this.#end)
    socket.on('close', this.#close)
    socket.on('error', this.#fail)
  }

  destroy(): void {
    this.#socket.destroy()
  }

  /** Its client has sent nothing for too long. */
  expire(): void {
    const error = Object.assign(new Error('Request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
    const isAnswered = this.isNew && this.#options.refuse(error)
    this.isNew = false
    if (!isAnswered) this.#socket.destroy()
  }

  readonly #take = (data: Buffer) => {
    // The client has gone, or the last response was the last one.
    if (this.#socket.writableEnded) return
    if (this.idleSinceMs === undefined) {
      // The client did not wait for its response. It gets no answer to what it sends until it has read the last one.
      this.#ahead = this.#ahead === undefined ? data : Buffer.concat([this.#ahead, data])
      this.#socket.pause()
      return
    }
    const request = this.#parse(data)
    const serve = request && this.#options.find(request)
    if (serve === undefined) {
      this.#handOver(data)
      return
    }
    this.isNew = false
    this.idleSinceMs = undefined
    const exchange = serve(this.#socket, this.#over)
    if (this.idleSinceMs === undefined) this.#exchange = exchange
  }

  /** The same bytes are the same request: programs that poll send nothing else. */
  #parse(data: Buffer): PlainRequest | undefined {
    if (this.#last?.data.equals(data)) return this.#last.request
    const request = parsePlainRequest(data, this.#socket)
    this.#last = request && { data, request }
    return request
  }

  /** The response is complete, but the client need not have read it yet. */
  readonly #over = () => {
    this.#exchange = undefined
    if (this.#socket.writableNeedDrain) this.#socket.once('drain', this.#ready).pause()
    else this.#ready()
  }

  readonly #ready = () => {
    this.idleSinceMs = performance.now()
    const ahead = this.#ahead
    this.#ahead = undefined
    if (this.#socket.isPaused()) this.#socket.resume()
    if (ahead !== undefined) this.#take(ahead)
  }

  /** As in Node's server, a client that ends its half has gone. */
  readonly #end = () => this.#socket.end()

  readonly #fail = () => this.#socket.destroy()

  readonly #close = () => {
    this.#options.onClose()
    this.#exchange?.leave()
  }

  /** `data` has not been answered. */
  #handOver(data: Buffer): void {
    const socket = this.#socket
    this.#options.onClose()
    socket.off('data', this.#take).off('end', this.#end).off('close', this.#close)
    this.#options.handOver()
    socket.off('error', this.#fail)
    socket.unshift(data)
  }
}
