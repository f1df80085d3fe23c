import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import { type Duplex, pipeline } from 'node:stream'
import type { ImageNetwork } from '@dormouse/engine'

/** They are between two neighbours, not between client and server (RFC 9110, 7.6.1). */
const HOP_BY_HOP = [
  'connection',
  'proxy-connection',
  'proxy-authorization',
  'keep-alive',
  'te',
  'upgrade',
  'transfer-encoding',
]

/** An HTTP proxy that connects with `network.dial` and says why it does not. Closes all connections on `signal`. */
export function createPullProxy(network: ImageNetwork, signal: AbortSignal): Server {
  const server = createServer((request, response) => {
    relay(network, request, response, signal).catch((error: unknown) => {
      if (response.headersSent) response.destroy()
      else response.writeHead(403, { 'content-type': 'text/plain' }).end(reason(error))
    })
  })
  server.on('connect', (request, socket, head) => {
    socket.on('error', () => {})
    tunnel(network, request, { socket, head }, signal).catch((error: unknown) => {
      // Go's client shows the text of the status line.
      socket.end(`HTTP/1.1 403 ${reason(error)}\r\n\r\n`)
    })
  })
  signal.addEventListener('abort', () => server.closeAllConnections(), { once: true })
  return server
}

/** `CONNECT host:443`: what follows is TLS between skopeo and the registry. */
async function tunnel(
  network: ImageNetwork,
  { url = '' }: IncomingMessage,
  { socket, head }: { socket: Duplex; head: Buffer },
  signal: AbortSignal,
): Promise<void> {
  const other = await network.dial(target(new URL(`https://${url}`), 443), signal)
  other.on('error', () => {})
  socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
  if (head.length > 0) other.write(head)
  const stop = () => socket.destroy()
  signal.addEventListener('abort', stop, { once: true })
  socket.once('close', () => signal.removeEventListener('abort', stop))
  pipeline(socket, other, () => {})
  pipeline(other, socket, () => {})
}

/** `GET http://host/path`: a registry without TLS. */
async function relay(
  network: ImageNetwork,
  request: IncomingMessage,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  const url = new URL(request.url ?? '')
  if (url.protocol !== 'http:') throw new Error('only http and https')
  const connection = await network.dial(target(url, 80), signal)
  const headers = { ...request.headers }
  for (const name of HOP_BY_HOP) delete headers[name]
  const { method } = request
  const path = `${url.pathname}${url.search}`
  await new Promise<void>((resolve, reject) => {
    const forwarded = httpRequest({ method, path, headers, agent: false, createConnection: () => connection })
    forwarded.once('error', reject)
    forwarded.once('response', (answer) => {
      for (const name of HOP_BY_HOP) delete answer.headers[name]
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      pipeline(answer, response, (error) => (error ? reject(error) : resolve()))
    })
    pipeline(request, forwarded, (error) => {
      if (error) reject(error)
    })
  })
}

function target({ hostname, port }: URL, usual: number): { host: string; port: number } {
  return { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? usual : Number(port) }
}

function reason(error: unknown): string {
  return (error as Error).message.replaceAll(/[^\x20-\x7e]/g, ' ').slice(0, 200)
}
