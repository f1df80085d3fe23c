import { closeSync } from 'node:fs'
import type { Server as HttpServer } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { pipeline } from 'node:stream'
import { DormouseError } from '@dormouse/contracts'
import type { ImageNetwork } from '@dormouse/engine'
import { loadGateAddon } from '../network/gate-addon.ts'
import { createPullProxy } from './pull-proxy.ts'

export interface OpenedNetwork extends AsyncDisposable {
  /** Starts a program in the network: its command line goes behind. */
  readonly launcher: readonly string[]
  readonly env: readonly string[]
}

const PROXY_VARIABLES = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy']

/**
 * Makes a network namespace whose only way out is `network.dial`: through an HTTP proxy on its loopback. A program that
 * follows a redirect past the proxy finds nothing there. Go's HTTP client goes past every proxy for loopback addresses,
 * so `loopbackPorts` are ports of the namespace, too.
 */
export async function openPullNetwork(network: ImageNetwork): Promise<OpenedNetwork> {
  const found = loadGateAddon()
  if (!('addon' in found))
    throw new DormouseError('host_unsupported', `Images cannot be pulled here: ${found.missing}.`)
  const { addon } = found
  const stop = new AbortController()
  const servers: (HttpServer | Server)[] = []
  const { network: netns } = await addon.makeNetwork()
  const close = async () => {
    stop.abort()
    for (const server of servers) server.close()
    closeSync(netns)
  }
  const serve = async (server: HttpServer | Server, wanted: number): Promise<number> => {
    const { listener } = await addon.listenLoopback(netns, wanted)
    servers.push(server)
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen({ fd: listener }, resolve)
    })
    return (server.address() as AddressInfo).port
  }
  try {
    for (const port of new Set(network.loopbackPorts)) await serve(forward(network, port, stop.signal), port)
    const port = await serve(createPullProxy(network, stop.signal), 0)
    return {
      launcher: ['nsenter', `--net=/proc/${process.pid}/fd/${netns}`, '--'],
      env: PROXY_VARIABLES.map((name) => `${name}=http://127.0.0.1:${port}`),
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** A port of the namespace's loopback that leads to the same port of the host's. */
function forward(network: ImageNetwork, port: number, signal: AbortSignal): Server {
  return createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => {})
    network.dial({ host: '127.0.0.1', port }, signal).then(
      (other) => {
        // Each direction ends by itself; an error of one ends both.
        pipeline(socket, other, () => {})
        pipeline(other, socket, () => {})
      },
      () => socket.destroy(),
    )
  })
}
